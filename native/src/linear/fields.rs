//! What is said of a linear problem beside its columns.

use crate::linear::prices::Conditions;

/// The fields of a problem, beside target, groups and costs, that a record can answer.
#[derive(Clone, Debug)]
pub struct Fields {
    /// False for models through the origin.
    pub intercept: bool,
    /// Penalty, >= 0, on unit-variance columns.
    pub ridge: f64,
    /// False takes the ridge on the columns as they are.
    pub scale: bool,
    /// Groups taken first, in this order.
    pub always: Vec<String>,
    /// Of all that is drawn; what is here draws nothing.
    pub seed: i64,
    /// What is said of prices beside the costs.
    pub told: Conditions,
}

impl Default for Fields {
    fn default() -> Self {
        Fields {
            intercept: true,
            ridge: 0.0,
            scale: true,
            always: Vec::new(),
            seed: 0,
            told: Conditions::default(),
        }
    }
}
