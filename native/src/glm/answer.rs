//! What is answered of kept rows: models and their terms as values of declared types, or a sequence.

use std::borrow::Cow;

use serde_json::json;

use super::intake::Intake;
use super::levels::{Levels, levels_of};
use super::model::{Precision, Start, in_units, note, precision, start};
use super::newton::Fit;
use super::normal;
use super::problem::Point;
use super::request::Request;
use super::rows::Rows;
use super::sequence::search;
use super::stored::sequence;
use crate::linear::columns::{INTERCEPT, check_intercept, match_columns};
use crate::linear::constrained::signs_of;
use crate::linear::groups::groups_of;
use crate::linear::prices::Conditions;
use crate::methods::Method;
use crate::methods::answer::{Cell, Type};
use crate::methods::setup::check_first;
use crate::record::kept::Kept;
use crate::record::rows::check_distinct;
use crate::words::error::Error;

/// A generalised linear model.
pub static FIT_GLM: Type = Type::Struct(&[
    ("family", Type::Text),
    ("link", Type::Text),
    ("target", Type::Text),
    ("levels", Type::List(&Type::Text)),
    ("intercept", Type::Number),
    ("coefficients", Type::Coefficients),
    ("std_errors", Type::Coefficients),
    ("deviance", Type::Number),
    ("null_deviance", Type::Number),
    ("explained", Type::Number),
    ("dispersion", Type::Number),
    ("rows", Type::Whole),
    ("skipped", Type::Whole),
    ("iterations", Type::Whole),
    ("status", Type::Text),
    ("aliased", Type::List(&Type::Text)),
    ("note", Type::Text),
    ("terms", Type::Text),
]);
/// Its coefficients with their tests, a term an element.
pub static SUMMARY_GLM: Type = Type::List(&Type::Struct(&[
    ("term", Type::Text),
    ("estimate", Type::Number),
    ("std_error", Type::Number),
    ("statistic", Type::Number),
    ("p_value", Type::Number),
    ("low", Type::Number),
    ("high", Type::Number),
]));
/// Why there is no model of rows; NULL if there is one.
pub static GLM_CHECK: Type = Type::Text;
/// The name of the function that says so.
const CHECK: &str = "glm_check";

/// What no row at all answers.
pub fn answer_of_nothing(method: &Method) -> Cell<'static> {
    if method.name == CHECK { text("no rows") } else { Cell::Null }
}

/// What some kept rows answer; nothing if there is no model of them, which `glm_check` explains.
pub fn answer(intake: &Intake, kept: &Kept, threads: usize) -> Result<Cell<'static>, String> {
    Ok(match (found(intake, kept, threads)?, intake.request.method.name) {
        (Ok(cell), _) => cell,
        (Err(reason), CHECK) => text(&reason),
        (Err(_), _) => Cell::Null,
    })
}

/// The same; the inner error is the reason why there is no model.
fn found(
    intake: &Intake,
    kept: &Kept,
    threads: usize,
) -> Result<Result<Cell<'static>, String>, String> {
    let request = &*intake.request;
    if kept.rows() == 0 {
        return Ok(Err(format!("no usable rows: {} rows were skipped", kept.skipped)));
    }
    let Some(levels) = levels_of(intake, kept)? else {
        let (target, rows) = (&request.target, kept.rows());
        return Ok(Err(format!("target '{target}' is constant ({rows} rows)")));
    };
    let classes = levels.classes.clone();
    let rows = Rows::new(kept, &intake.roles, request.family, &intake.base, classes, threads);
    let made = fixed(request).into_iter().map(|(name, _)| name.into_owned());
    let made: Vec<String> = made.collect();
    check_distinct(rows.columns.iter().chain(&made).map(String::as_str))?;
    let wrong = |error: Error| error.message;
    check_intercept(&rows.columns).map_err(wrong)?;
    if request.method.name == "anytime_sequence_glm" {
        let (groups, costs) = (request.groups.as_ref(), request.costs.as_ref());
        let groups = groups_of(
            &rows.columns,
            groups,
            costs,
            &request.target,
            &rows.terms,
            false,
            &request.fields.told,
        );
        let groups = groups.map_err(wrong)?;
        let always = groups.numbers(&request.fields.always).map_err(wrong)?;
        let most = request.max_groups.and_then(|most| i64::try_from(most).ok());
        check_first(&groups, &always, request.budget, most).map_err(wrong)?;
        let start = match start(request, &rows, places(&rows, &groups.members))? {
            Ok(start) => start,
            Err(reason) => return Ok(Err(reason)),
        };
        let found = search(request, &start, &groups, &always)?;
        return Ok(Ok(sequence(request, &rows, &start, &groups, &levels, &found)));
    }
    let members = match &request.columns {
        None => rows.columns.clone(),
        Some(patterns) => match_columns(patterns, &rows.columns, "columns").map_err(wrong)?,
    };
    // Columns of a field stand side by side, as groups of fields have them.
    let members = groups_of(
        &members,
        None,
        None,
        &request.target,
        &rows.terms,
        false,
        &Conditions::default(),
    );
    let members = members.map_err(wrong)?.members;
    let start = match start(request, &rows, places(&rows, &members))? {
        Ok(start) => start,
        Err(reason) => return Ok(Err(reason)),
    };
    if request.method.name == CHECK {
        return Ok(Ok(Cell::Null));
    }
    let every: Vec<usize> = (0..members.len()).collect();
    let null = &start.null;
    let point = Point { intercept: null.point.intercept, coef: vec![0.0; members.len()] };
    let model = start.problem.expand(&every, &point)?;
    let descend = |signs| start.problem.descend(every.clone(), point.clone(), model.clone(), signs);
    let mut fit = descend(None)?;
    let mut cost = None;
    if !request.signs.is_empty() {
        let free = fit.model.deviance;
        fit = descend(Some(signs_of(&request.signs, &members).map_err(wrong)?))?;
        cost = Some((fit.model.deviance - free).max(0.0) / start.problem.null_deviance);
    }
    let known = Precision { price: cost, ..precision(request, &start, &fit) };
    Ok(Ok(match request.method.name {
        "summary_glm" => summary(request, &start, &members, &fit, &known),
        _ => model_of(request, &rows, &start, &members, &levels, &fit, &known),
    }))
}

/// The numbers of some columns among those of the rows.
fn places(rows: &Rows, members: &[String]) -> Vec<usize> {
    let place = |name: &String| rows.columns.iter().position(|column| column == name);
    members.iter().filter_map(place).collect()
}

/// A list of texts.
pub fn texts<'t>(items: impl IntoIterator<Item = &'t String>) -> Cell<'static> {
    Cell::List(items.into_iter().map(|text| Cell::Text(Cow::Owned(text.clone()))).collect())
}

/// A text.
pub fn text(text: &str) -> Cell<'static> {
    Cell::Text(Cow::Owned(text.to_string()))
}

/// A text, or NULL.
pub fn optional(found: Option<&String>) -> Cell<'static> {
    found.map_or(Cell::Null, |found| text(found))
}

/// Coefficients that a prediction reads before those of the columns: 1 of what is added.
pub fn fixed(request: &Request) -> Vec<(Cow<'static, str>, f64)> {
    let exposure = request.exposure.as_ref().map(|name| format!("{name}.log"));
    request.offset.iter().cloned().chain(exposure).map(|name| (Cow::Owned(name), 1.0)).collect()
}

/// The terms that a prediction reads, with the shares of levels.
pub fn terms_json(request: &Request, rows: &Rows, start: &Start) -> Cell<'static> {
    let mut terms = rows.terms.clone();
    if let Some(exposure) = &request.exposure {
        terms.bases.push(json!({"column": exposure}));
    }
    let json = terms.of_model(&rows.columns, |at| start.means[at]);
    json.map_or(Cell::Null, |json| Cell::Text(Cow::Owned(json)))
}

/// The columns that are aliased, in the order of the table.
pub fn aliased(members: &[String], columns: &[usize], known: &Precision) -> Cell<'static> {
    let both = columns.iter().zip(&known.aliased).filter(|(_, aliased)| **aliased);
    let mut columns: Vec<usize> = both.map(|(&j, _)| j).collect();
    columns.sort_unstable();
    texts(columns.into_iter().map(|j| &members[j]))
}

fn model_of(
    request: &Request,
    rows: &Rows,
    start: &Start,
    members: &[String],
    levels: &Levels,
    fit: &Fit,
    known: &Precision,
) -> Cell<'static> {
    let (intercept, coefficients) = in_units(&start.problem, fit);
    let mut entries = fixed(request);
    entries.extend(members.iter().cloned().map(Cow::Owned).zip(coefficients));
    let first = request.fields.intercept.then_some((INTERCEPT.to_string(), known.intercept));
    let errors = first.into_iter().chain(members.iter().cloned().zip(known.columns.clone()));
    let errors = errors.filter(|(_, error)| !error.is_nan());
    let price = known.price.map(|cost| format!("the constraints cost {cost:.4} of r2"));
    let notes = [note(start, fit, known, request.fields.ridge), price];
    let notes: Vec<String> = notes.into_iter().flatten().collect();
    let note = (!notes.is_empty()).then(|| notes.join("; "));
    Cell::List(vec![
        Cell::Text(Cow::Owned(request.family.text())),
        text(request.family.link.name()),
        text(&request.target),
        texts(&levels.names),
        Cell::Number(intercept),
        Cell::Map(entries),
        Cell::Map(errors.map(|(name, error)| (Cow::Owned(name), error)).collect()),
        Cell::Number(fit.model.deviance),
        Cell::Number(start.problem.null_deviance),
        Cell::Number(fit.explained),
        Cell::Number(known.dispersion),
        Cell::Whole(start.n_rows),
        Cell::Whole(rows.skipped() as i64),
        Cell::Whole(fit.steps as i64),
        text(fit.status.name()),
        aliased(members, &fit.columns, known),
        optional(note.as_ref()),
        terms_json(request, rows, start),
    ])
}

/// Wald's tests, by the normal distribution (Wald 1943).
fn summary(
    request: &Request,
    start: &Start,
    members: &[String],
    fit: &Fit,
    known: &Precision,
) -> Cell<'static> {
    let (intercept, coefficients) = in_units(&start.problem, fit);
    let first = (INTERCEPT.to_string(), intercept, known.intercept);
    let first = request.fields.intercept.then_some(first);
    let columns = members.iter().cloned().zip(coefficients).zip(&known.columns);
    let columns = columns.map(|((name, own), &error)| (name, own, error));
    let reach = normal::quantile(0.5 + 0.5 * request.level);
    let term = |(name, estimate, error): (String, f64, f64)| {
        let statistic = estimate / error;
        Cell::List(vec![
            Cell::Text(Cow::Owned(name)),
            Cell::Number(estimate),
            Cell::Number(error),
            Cell::Number(statistic),
            Cell::Number(2.0 * normal::tail(statistic.abs())),
            Cell::Number(estimate - error * reach),
            Cell::Number(estimate + error * reach),
        ])
    };
    Cell::List(first.into_iter().chain(columns).map(term).collect())
}
