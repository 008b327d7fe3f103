//! The two levels of a target, of which the second counts as 1.

use super::intake::Intake;
use super::request::Request;
use super::rows::Classes;
use crate::record::kept::Kept;
use crate::words::value::Value;

/// The two levels of a target, that which counts as 0 first.
pub struct Levels {
    /// Their texts; none of a target of numbers that are what they are.
    pub names: Vec<String>,
    /// The type that Python has of them.
    pub kind: Option<&'static str>,
    /// What the kept values count as.
    pub classes: Classes,
}

/// What the values of the target count as; nothing if there is only one.
pub fn levels_of(intake: &Intake, kept: &Kept) -> Result<Option<Levels>, String> {
    let request = &*intake.request;
    let (target, name) = (intake.roles.target, &request.target);
    let own = Levels { names: Vec::new(), kind: None, classes: Classes::Own };
    let is_text = kept.shape.columns[target].is_text;
    if !is_text && request.positive.is_none() {
        return Ok(Some(own));
    }
    let too_many = || {
        format!(
            "target '{name}' has more than two levels; a binomial target must have two: of more, \
             Python predicts all with family 'multinomial'"
        )
    };
    if !is_text {
        let (mut found, mut values): (Vec<f64>, Vec<f64>) = (Vec::new(), Vec::new());
        for part in 0..kept.parts() {
            kept.read(part, target, &mut values);
            for &y in &values {
                if !found.contains(&y) {
                    found.push(y);
                }
                if found.len() > 2 {
                    return Err(too_many());
                }
            }
        }
        found.sort_by(f64::total_cmp);
        let is_one = |y: &f64| match &request.positive {
            Some(Value::Truth(truth)) => *y == f64::from(u8::from(*truth)),
            Some(Value::Text(text)) => text.parse() == Ok(*y),
            Some(value) => value.number() == Some(*y),
            None => false,
        };
        let Some(&one) = found.iter().find(|y| is_one(y)) else {
            let levels: Vec<String> = found.iter().map(f64::to_string).collect();
            return Err(no_level(request, &levels));
        };
        let Some(&other) = found.iter().find(|y| **y != one) else { return Ok(None) };
        let kind = if one.fract() == 0.0 && other.fract() == 0.0 { "int" } else { "float" };
        return Ok(Some(Levels {
            names: vec![other.to_string(), one.to_string()],
            kind: Some(kind),
            classes: Classes::Is(one),
        }));
    }
    let levels: Vec<String> =
        kept.levels(target).map(|text| String::from_utf8_lossy(text).into_owned()).collect();
    if levels.len() > 2 {
        return Err(too_many());
    }
    let mut sorted = levels.clone();
    sorted.sort();
    if let Some(positive) = &request.positive {
        let is_it = |level: &String| *positive == Value::Text(level.clone());
        match sorted.iter().position(is_it) {
            Some(at) => {
                let one = sorted.remove(at);
                sorted.push(one);
            }
            None => return Err(no_level(request, &sorted)),
        }
    }
    let [_, one] = &sorted[..] else { return Ok(None) };
    let class = |level: &String| f64::from(u8::from(level == one));
    let classes = Classes::Levels(levels.iter().map(class).collect());
    Ok(Some(Levels { names: sorted, kind: Some("str"), classes }))
}

fn no_level(request: &Request, levels: &[String]) -> String {
    let positive = request.positive.as_ref().map(Value::to_string).unwrap_or_default();
    format!(
        "positive is {positive}; target '{}' has the levels [{}]",
        request.target,
        levels.join(", ")
    )
}
