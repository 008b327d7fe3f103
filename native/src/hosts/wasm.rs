//! Entry points for WebAssembly: a question and its answer as JSON, and nothing imported.
//!
//! A page asks with what it holds: `dbselect_alloc` gives memory for the text of a question, and
//! `dbselect_ask` takes it and returns the answer, whose first four bytes are its length. The
//! caller gives both back by `dbselect_free`.

use std::mem::forget;
use std::slice;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value as Json, json};

use crate::linear::bounds::upper_bounds;
use crate::linear::fields::Fields;
use crate::linear::problem::Gram;
use crate::methods::Method;
use crate::methods::given::read_request;
use crate::methods::run::Workspace;
use crate::methods::setup::{Plan, Request};
use crate::record::gram::{RawRecord, Record};
use crate::search::sequence::Sequence;
use crate::search::steps::{Action, Stop, to_the_end};
use crate::words::error::Error;
use crate::words::value::Value;

/// Memory for a text of some bytes.
#[unsafe(no_mangle)]
pub extern "C" fn dbselect_alloc(length: usize) -> *mut u8 {
    let mut bytes = vec![0_u8; length].into_boxed_slice();
    let start = bytes.as_mut_ptr();
    forget(bytes);
    start
}

/// Give memory back.
///
/// # Safety
/// `start` is of `dbselect_alloc` with the same length, or an answer of `dbselect_ask` with four
/// bytes more than it says; it is given back once.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dbselect_free(start: *mut u8, length: usize) {
    // SAFETY: see the caller's promise; both come of a boxed slice of so many bytes.
    drop(unsafe { Box::from_raw(std::ptr::slice_from_raw_parts_mut(start, length)) });
}

/// The answer to a question: its length in four bytes, the least first, and its text.
///
/// # Safety
/// `length` bytes at `start` can be read.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dbselect_ask(start: *const u8, length: usize) -> *mut u8 {
    // SAFETY: see the caller's promise.
    let question = unsafe { slice::from_raw_parts(start, length) };
    let question = std::str::from_utf8(question).unwrap_or_default();
    let answer = match answered(question) {
        Ok(answer) => serde_json::to_vec(&answer),
        Err(error) => serde_json::to_vec(&json!({ "error": error })),
    };
    // Texts and numbers can always be written.
    let answer = answer.unwrap_or_default();
    let mut bytes = (answer.len() as u32).to_le_bytes().to_vec();
    bytes.extend(answer);
    let mut bytes = bytes.into_boxed_slice();
    let start = bytes.as_mut_ptr();
    forget(bytes);
    start
}

/// What is asked: a record, as `Gram.to_struct` has it, and a search of it.
#[derive(Deserialize)]
struct Asked {
    record: Given,
    target: String,
    #[serde(default = "anytime")]
    method: String,
    /// As in SQL; `exclude` names groups that are left out, and `budgets` those of the bounds.
    #[serde(default)]
    options: Map<String, Json>,
}

fn anytime() -> String {
    "anytime_sequence".to_string()
}

/// The fields of a record.
#[derive(Deserialize)]
struct Given {
    columns: Vec<String>,
    rows: i64,
    #[serde(default)]
    skipped: i64,
    missing: Option<Vec<i64>>,
    weight: f64,
    mean: Vec<f64>,
    mean_low: Option<Vec<f64>>,
    comoment: Vec<f64>,
    terms: Option<String>,
}

/// A sequence.
#[derive(Serialize)]
struct Answer {
    steps: Vec<Json>,
    stop: &'static str,
    aliased: Vec<String>,
    condition: f64,
    budgets: Vec<f64>,
    bounds: Vec<f64>,
    /// Groups that are left out, with those that need them.
    excluded: Vec<String>,
    /// The conditions on the others, by the names of their fields.
    conditions: Map<String, Json>,
}

fn answered(question: &str) -> Result<Answer, String> {
    let asked: Asked =
        serde_json::from_str(question).map_err(|error| format!("ArgumentError: {error}"))?;
    let Asked { record, target, method, mut options } = asked;
    let excluded = options.remove("exclude").map_or(Ok(Vec::new()), |names| {
        Value::from(names).texts().ok_or("ArgumentError: exclude must be a list of group names")
    })?;
    let budgets = budgets(options.remove("budgets"))?;
    let given: Vec<(String, Value)> = options
        .into_iter()
        .map(|(name, json)| match &name[..] {
            "groups" | "costs" => (name, named(json)),
            _ => (name, Value::from(json)),
        })
        .collect();
    let known = Method::of(&method)
        .ok_or_else(|| format!("ArgumentError: there is no method '{method}'"))?;
    let request = read_request(known, &target, &given)?;
    request.check()?;
    let record = record.checked()?;
    let (moments, mean) = (&record.moments, record.moments.exact_mean());
    let missing: Vec<i64> = record.missing.iter().map(|&rows| rows as i64).collect();
    let gram = Gram {
        rows: moments.rows as i64,
        skipped: moments.skipped as i64,
        weight: moments.weight,
        mean: &mean.high,
        mean_low: &mean.low,
        comoment: &moments.comoment,
        missing: &missing,
    };
    let plan = planned(&request, &record, &gram)?;
    if excluded.is_empty() {
        return searched(&request, &plan, &gram, budgets);
    }
    let excluded = request.fields.told.with_dependents(&excluded);
    let request = without(request, &plan, &excluded)?;
    let found = searched(&request, &planned(&request, &record, &gram)?, &gram, budgets)?;
    Ok(Answer { excluded, ..found })
}

impl Given {
    fn checked(self) -> Result<Record, String> {
        let Given { columns, rows, skipped, missing, weight, mean, mean_low, comoment, terms } =
            self;
        let raw =
            RawRecord { columns, rows, skipped, missing, weight, mean, mean_low, comoment, terms };
        raw.check().map_err(|error| format!("RecordError: {error}"))
    }
}

fn planned(request: &Request, record: &Record, gram: &Gram) -> Result<Plan, String> {
    let fit = request.fit(&record.columns, &record.terms)?;
    fit.plan(gram)?.cloned().map_err(no_data)
}

fn no_data(reason: String) -> String {
    format!("DataError: {reason}")
}

/// The request without some of its groups.
fn without(request: Request, plan: &Plan, excluded: &[String]) -> Result<Request, Error> {
    let groups = &plan.groups;
    for name in excluded {
        if plan.first.contains(&groups.number(name, "exclude")?) {
            let message = format!("group '{name}' is named by always and by exclude");
            return Err(Error::group(message));
        }
    }
    let kept = |at: &usize| !excluded.contains(&groups.names[*at]);
    let columns = |at: usize| groups.members[groups.starts[at]..groups.starts[at + 1]].to_vec();
    let numbers: Vec<usize> = (0..groups.names.len()).filter(kept).collect();
    let named = numbers.iter().map(|&at| (groups.names[at].clone(), columns(at)));
    let costs = numbers.iter().map(|&at| (groups.names[at].clone(), groups.costs[at]));
    let told = request.fields.told.clone().without(excluded);
    let fields = Fields { told, ..request.fields };
    Ok(Request { groups: Some(named.collect()), costs: Some(costs.collect()), fields, ..request })
}

fn searched(
    request: &Request,
    plan: &Plan,
    gram: &Gram,
    budgets: Option<Vec<f64>>,
) -> Result<Answer, String> {
    let mut workspace = Workspace::default();
    let found = workspace.search(request, plan, gram, &mut to_the_end).map_err(no_data)?.clone();
    let budgets = budgets.unwrap_or_else(|| found.spent.clone());
    let mut order = Vec::new();
    for step in found.steps.iter().filter(|step| step.action == Action::Add) {
        if !order.contains(&step.group) {
            order.push(step.group);
        }
    }
    let every: Vec<usize> = (0..plan.groups.names.len()).collect();
    let (every_cost, _) = plan.groups.prices().from_below(&[], &every);
    let mut bounds =
        upper_bounds(workspace.problem(), &plan.groups.starts, &every_cost, &order, &budgets);
    for (bound, budget) in bounds.iter_mut().zip(&budgets) {
        // Rounding may take the bound below what is reached.
        let step = found.serving(*budget);
        *bound = bound.max(if step == 0 { 0.0 } else { found.steps[step - 1].explained });
    }
    let conditions = request.fields.told.to_json();
    let name = |&column: &usize| plan.groups.members[column].clone();
    Ok(Answer {
        steps: (0..found.spent.len()).map(|step| told(&found, plan, step)).collect(),
        stop: Stop::NAMES[found.stop as usize],
        aliased: found.aliased.iter().map(name).collect(),
        condition: found.condition,
        budgets,
        bounds,
        excluded: Vec::new(),
        conditions: conditions.into_iter().map(|(name, value)| (name.to_string(), value)).collect(),
    })
}

/// A step with its model.
fn told(found: &Sequence, plan: &Plan, step: usize) -> Json {
    let at = found.ends[step.max(1) - 1]..found.ends[step];
    let names = found.columns[at.clone()].iter().map(|&column| &plan.groups.members[column]);
    let values = found.coefficients[at].iter();
    let coefficients: Map<String, Json> =
        names.zip(values).map(|(name, value)| (name.clone(), json!(value))).collect();
    let taken = step.checked_sub(1).map(|before| &found.steps[before]);
    json!({
        "step": step,
        "action": taken.map_or("start", |taken| match taken.action {
            Action::Add => "add",
            Action::Remove => "remove",
        }),
        "group": taken.map(|taken| &plan.groups.names[taken.group]),
        "cost": step.checked_sub(1).map_or(0.0, |before| found.paid[before]),
        "spent": found.spent[step],
        "score": taken.map(|taken| taken.score),
        "gain": taken.map_or(0.0, |taken| taken.gain),
        "explained": taken.map_or(0.0, |taken| taken.explained),
        "r2": found.r2[step],
        "useful": taken.is_none_or(|taken| taken.is_useful()),
        "intercept": found.intercept[step],
        "coefficients": coefficients,
    })
}

/// The budgets of the bounds; None for those of the steps.
fn budgets(given: Option<Json>) -> Result<Option<Vec<f64>>, String> {
    let Some(given) = given.filter(|given| !given.is_null()) else {
        return Ok(None);
    };
    let number = |one: &Json| one.as_f64().filter(|budget| *budget >= 0.0);
    let numbers = given.as_array().and_then(|items| items.iter().map(number).collect());
    let refused = || "ArgumentError: budgets must be a list of numbers >= 0".to_string();
    numbers.map(Some).ok_or_else(refused)
}

/// Values by name, of an object or of pairs, which keep their order whatever the names.
fn named(json: Json) -> Value {
    let pair = |item: &Json| match item {
        Json::Array(pair) if pair.len() == 2 => {
            Some((pair[0].as_str()?.to_string(), Value::from(pair[1].clone())))
        }
        _ => None,
    };
    let pairs = json.as_array().and_then(|items| items.iter().map(pair).collect());
    pairs.map_or_else(|| Value::from(json), Value::Map)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The answer to a question about columns a, 1, 2, 3, 4; b, 1, -1, -1, 1; y = 2 a + b / 2 + 1/2.
    fn asked(options: Json) -> Json {
        let question = json!({
            "record": {
                "columns": ["a", "b", "y"], "rows": 4, "weight": 4.0, "mean": [2.5, 0.0, 5.5],
                "comoment": [5.0, 0.0, 4.0, 10.0, 2.0, 21.0],
            },
            "target": "y",
            "options": options,
        });
        let question = question.to_string().into_bytes();
        let start = dbselect_alloc(question.len());
        // SAFETY: the memory is of so many bytes; both are given back once.
        unsafe {
            std::ptr::copy_nonoverlapping(question.as_ptr(), start, question.len());
            let answer = dbselect_ask(start, question.len());
            dbselect_free(start, question.len());
            let mut length = [0; 4];
            length.copy_from_slice(slice::from_raw_parts(answer, 4));
            let length = u32::from_le_bytes(length) as usize;
            let told = serde_json::from_slice(slice::from_raw_parts(answer.add(4), length));
            dbselect_free(answer, length + 4);
            told.unwrap()
        }
    }

    #[test]
    fn steps_models_and_bounds_are_told() {
        let told = asked(json!({ "costs": { "a": 50, "b": 1.0 }, "budgets": [1, 51] }));
        let groups: Vec<&Json> =
            told["steps"].as_array().unwrap().iter().map(|step| &step["group"]).collect();
        assert_eq!(groups, [&Json::Null, &json!("b"), &json!("a")]);
        let near = |found: &Json, expected: f64| {
            assert!((found.as_f64().unwrap() - expected).abs() < 1e-14, "{found}");
        };
        let last = &told["steps"][2];
        near(&last["coefficients"]["a"], 2.0);
        near(&last["coefficients"]["b"], 0.5);
        near(&last["intercept"], 0.5);
        near(&last["spent"], 51.0);
        near(&told["bounds"][0], 1.0 / 21.0);
        near(&told["bounds"][1], 1.0);
        assert_eq!(told["stop"], "EXHAUSTED");
    }

    #[test]
    fn a_group_that_is_left_out_is_in_no_step() {
        let told = asked(json!({ "exclude": ["b"], "costs": [["a", 2], ["b", 1]] }));
        assert_eq!(told["steps"].as_array().unwrap().len(), 2);
        assert_eq!(told["steps"][1]["group"], "a");
    }

    #[test]
    fn set_ups_are_paid_once_and_what_needs_a_group_left_out_goes_with_it() {
        let shared = json!({ "draw": { "cost": 3, "groups": ["a", "b"] } });
        let told = asked(json!({ "costs": { "a": 0, "b": 1 }, "shared": shared }));
        let paid: Vec<f64> = told["steps"].as_array().unwrap()[1..]
            .iter()
            .map(|step| step["cost"].as_f64().unwrap())
            .collect();
        assert_eq!(paid, [3.0, 1.0]);
        let given = json!({ "needs": { "b": ["a"] }, "one_of": [["b"]], "shared": shared });
        let mut left = given.clone();
        left["exclude"] = json!(["b"]);
        let told = asked(left);
        assert_eq!(told["excluded"], json!(["b"]));
        assert_eq!(told["conditions"], json!({ "shared": { "draw": [3.0, ["a"]] } }));
        let with_need = json!({ "exclude": ["a"], "needs": { "b": ["a"] } });
        assert!(asked(with_need)["error"].to_string().contains("there is no group"));
    }

    #[test]
    fn a_mistake_is_one_sentence() {
        for (options, expected) in [
            (json!({ "ridge": -1 }), "ridge is -1.0; it must be a number >= 0"),
            (json!({ "exclude": ["c"] }), "exclude names"),
            (json!({ "exclude": ["a"], "always": ["a"] }), "by always and by exclude"),
            (json!({ "exclude": ["a", "b"] }), "there is no group"),
            (json!({ "exclude": ["b"], "needs": { "a": ["b"] } }), "there is no group"),
            (json!({ "budgets": 3 }), "budgets must be a list"),
        ] {
            let told = asked(options)["error"].to_string();
            assert!(told.contains(expected), "{told}");
        }
    }
}
