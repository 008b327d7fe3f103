//! `design`: which rows to observe, as it is asked.

use super::options::refused;
use crate::search::design::candidates::Asked;
use crate::words::error::Error;
use crate::words::value::Value;

impl Asked {
    /// Read the arguments; nothing is the default.
    pub fn read(
        k: &Value,
        beta2: &Value,
        sigma2: &Value,
        scale_rows: &Value,
    ) -> Result<Asked, Error> {
        let positive = |name: &str, value: &Value| match (value, value.number()) {
            (Value::Nothing, _) => Ok(1.0),
            (_, Some(number)) if number > 0.0 && number.is_finite() => Ok(number),
            _ => Err(refused(name, value)),
        };
        let k = match k {
            Value::Whole(count) if *count >= 1 => *count as usize,
            other => return Err(refused("k", other)),
        };
        let scale_rows = match scale_rows {
            Value::Nothing => false,
            Value::Truth(truth) => *truth,
            other => return Err(refused("scale_rows", other)),
        };
        let (beta2, sigma2) = (positive("beta2", beta2)?, positive("sigma2", sigma2)?);
        Ok(Asked { k, beta2, sigma2, scale_rows })
    }
}
