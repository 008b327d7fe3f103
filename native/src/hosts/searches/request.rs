//! Requests in Arrow: a row of values by name.

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, StructArray};
use arrow_schema::DataType;

use super::records::{Lists, Texts};
use crate::record::arrow::{Place, leaf};
use crate::search::given;
use crate::search::methods::Method;
use crate::search::methods::answer::Type;
use crate::search::methods::question::Question;
use crate::search::setup::Request;
use crate::search::value::Value;

/// A method, a target and the options by name.
type Asked = (&'static Method, String, Vec<(String, Value)>);

/// A request of a search, by the names of its options: the only row of a table.
///
/// What is NULL, or no column, has its default.
pub fn read_request(row: &StructArray) -> Result<Request, String> {
    let (method, target, values) = read_values(row)?;
    Ok(given::read_request(method, &target, &values)?)
}

/// A question of another method, and the type of its answers.
pub fn read_question(row: &StructArray) -> Result<(Question, &'static Type), String> {
    let (method, target, values) = read_values(row)?;
    let returns = method.returns().ok_or_else(|| format!("{} is a search", method.name))?;
    Ok((Question::read(method, &target, &values)?, returns))
}

/// The method, the target and the options of a row.
fn read_values(row: &StructArray) -> Result<Asked, String> {
    let text = |name: &str| match row.column_by_name(name) {
        Some(array) => Ok(Texts::new(array, name)?.at(0).unwrap_or_default().to_string()),
        None => Ok::<_, String>(String::new()),
    };
    let mut values = Vec::new();
    for (field, array) in row.fields().iter().zip(row.columns()) {
        let name = field.name();
        let value = value_of(name, array, 0)?;
        // A table has a column for the options of every method.
        if !["method", "target"].contains(&&name[..]) && value != Value::Nothing {
            values.push((name.clone(), value));
        }
    }
    let name = text("method")?;
    let method = Method::of(&name).ok_or_else(|| format!("there is no method '{name}'"))?;
    Ok((method, text("target")?, values))
}

/// The value of row `at` of an array.
fn value_of(name: &str, array: &ArrayRef, at: usize) -> Result<Value, String> {
    if at >= array.len() || array.is_null(at) {
        return Ok(Value::Nothing);
    }
    let number = || {
        let numbers = leaf(name, array, Place::ROW).doubles(at..at + 1)?.into_owned();
        Ok::<_, String>(numbers.first().copied().unwrap_or(f64::NAN))
    };
    Ok(match array.data_type() {
        DataType::Boolean => Value::Truth(array.as_boolean().value(at)),
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => {
            Value::Text(Texts::new(array, name)?.at(at).unwrap_or_default().to_string())
        }
        DataType::List(_) | DataType::LargeList(_) | DataType::FixedSizeList(..) => {
            let (lists, items) = Lists::new(array, name)?;
            let item = |i| value_of(name, &items, i);
            Value::List(lists.of(at).map(item).collect::<Result<_, _>>()?)
        }
        DataType::Map(..) => {
            let map = array.as_map();
            let keys = Texts::new(map.keys(), name)?;
            let ends = map.value_offsets();
            let entry = |i| {
                let key = keys.at(i).unwrap_or_default().to_string();
                Ok::<_, String>((key, value_of(name, map.values(), i)?))
            };
            let range = ends[at] as usize..ends[at + 1] as usize;
            Value::Map(range.map(entry).collect::<Result<_, _>>()?)
        }
        whole if whole.is_integer() => Value::Whole(number()? as i64),
        other if other.is_numeric() => Value::Number(number()?),
        other => Value::Other(format!("a value of type {other}")),
    })
}
