//! Answers of a declared type, one after another, as one Arrow array.

use std::sync::Arc;

use arrow_array::{
    Array, ArrayRef, BooleanArray, Float64Array, Int64Array, ListArray, StructArray,
};
use arrow_buffer::NullBuffer;
use arrow_schema::{Field, Fields};

use super::answers::{Ends, Texting, maps};
use crate::methods::answer::{Cell, Type};

/// An array in the making.
pub struct Cells {
    /// Whether each is other than NULL.
    there: Vec<bool>,
    kind: Kind,
}

enum Kind {
    Truth(Vec<bool>),
    Whole(Vec<i64>),
    Number(Vec<f64>),
    Text(Texting),
    List(Ends, Box<Cells>),
    Map(Ends, Texting, Vec<f64>),
    Struct(Vec<(&'static str, Cells)>),
}

impl Cells {
    /// An array of a type without elements.
    pub fn new(of: &'static Type) -> Cells {
        let kind = match of {
            Type::Truth => Kind::Truth(Vec::new()),
            Type::Whole => Kind::Whole(Vec::new()),
            Type::Number => Kind::Number(Vec::new()),
            Type::Text => Kind::Text(Texting::default()),
            Type::List(item) => Kind::List(Ends::default(), Box::new(Cells::new(item))),
            Type::Coefficients => Kind::Map(Ends::default(), Texting::default(), Vec::new()),
            Type::Struct(fields) => {
                Kind::Struct(fields.iter().map(|(name, of)| (*name, Cells::new(of))).collect())
            }
        };
        Cells { there: Vec::new(), kind }
    }

    /// Append a value; one of another type is NULL.
    pub fn push(&mut self, cell: &Cell) -> Result<(), String> {
        let mut is_there = *cell != Cell::Null;
        match &mut self.kind {
            Kind::Truth(all) => all.push(*cell == Cell::Truth(true)),
            Kind::Whole(all) => all.push(if let Cell::Whole(number) = cell { *number } else { 0 }),
            Kind::Number(all) => {
                let number = if let Cell::Number(number) = cell { *number } else { f64::NAN };
                is_there &= !number.is_nan();
                all.push(number);
            }
            Kind::Text(all) => all.push(if let Cell::Text(text) = cell { text } else { "" })?,
            Kind::List(ends, items) => {
                cell.items().iter().try_for_each(|item| items.push(item))?;
                ends.push(items.there.len())?;
            }
            Kind::Map(ends, names, values) => {
                let entries = if let Cell::Map(entries) = cell { &entries[..] } else { &[] };
                for (name, value) in entries {
                    names.push(name)?;
                    values.push(*value);
                }
                ends.push(values.len())?;
            }
            Kind::Struct(fields) => {
                for (at, (_, field)) in fields.iter_mut().enumerate() {
                    field.push(cell.items().get(at).unwrap_or(&Cell::Null))?;
                }
            }
        }
        self.there.push(is_there);
        Ok(())
    }

    /// Append the values of an array of the same type.
    pub fn append(&mut self, more: Cells) -> Result<(), String> {
        self.there.extend(more.there);
        match (&mut self.kind, more.kind) {
            (Kind::Truth(all), Kind::Truth(more)) => all.extend(more),
            (Kind::Whole(all), Kind::Whole(more)) => all.extend(more),
            (Kind::Number(all), Kind::Number(more)) => all.extend(more),
            (Kind::Text(all), Kind::Text(more)) => all.append(more)?,
            (Kind::List(ends, items), Kind::List(more_ends, more)) => {
                ends.append(more_ends)?;
                items.append(*more)?;
            }
            (Kind::Map(ends, names, values), Kind::Map(more_ends, more_names, more)) => {
                ends.append(more_ends)?;
                names.append(more_names)?;
                values.extend(more);
            }
            (Kind::Struct(fields), Kind::Struct(more)) => {
                for ((_, field), (_, more)) in fields.iter_mut().zip(more) {
                    field.append(more)?;
                }
            }
            _ => return Err("answers to different questions".to_string()),
        }
        Ok(())
    }

    /// The values as one array.
    pub fn finish(self) -> ArrayRef {
        let there = Some(NullBuffer::from(self.there));
        match self.kind {
            Kind::Truth(all) => Arc::new(BooleanArray::new(all.into(), there)),
            Kind::Whole(all) => Arc::new(Int64Array::new(all.into(), there)),
            Kind::Number(all) => Arc::new(Float64Array::new(all.into(), there)),
            Kind::Text(all) => Arc::new(all.finish(there)),
            Kind::List(ends, items) => {
                let items = items.finish();
                let field = Arc::new(Field::new("item", items.data_type().clone(), true));
                Arc::new(ListArray::new(field, ends.finish(), items, there))
            }
            Kind::Map(ends, names, values) => Arc::new(maps(ends, names, values, there)),
            Kind::Struct(fields) => {
                let field = |(name, cells): (&str, Cells)| {
                    let array = cells.finish();
                    (Field::new(name, array.data_type().clone(), true), array)
                };
                let (fields, arrays): (Vec<Field>, Vec<ArrayRef>) =
                    fields.into_iter().map(field).unzip();
                Arc::new(StructArray::new(Fields::from(fields), arrays, there))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use arrow_array::cast::AsArray;

    use super::*;

    #[test]
    fn every_type_has_its_nulls() {
        static OF: Type = Type::Struct(&[
            ("a", Type::Number),
            ("b", Type::List(&Type::Text)),
            ("c", Type::Coefficients),
        ]);
        let one = Cell::List(vec![
            Cell::Number(f64::NAN),
            Cell::List(vec![Cell::text("x"), Cell::Null]),
            Cell::Map(vec![("k".into(), 2.0)]),
        ]);
        let (mut all, mut more) = (Cells::new(&OF), Cells::new(&OF));
        all.push(&one).unwrap();
        [&Cell::Null, &one].into_iter().for_each(|cell| more.push(cell).unwrap());
        all.append(more).unwrap();
        let found = all.finish();
        let found = found.as_struct();
        assert_eq!((found.len(), found.null_count()), (3, 1));
        assert_eq!(found.column(0).null_count(), 3);
        let lists = found.column(1).as_list::<i32>();
        assert_eq!((lists.value_offsets(), lists.values().null_count()), (&[0, 2, 2, 4][..], 2));
        assert_eq!(found.column(2).as_map().value_offsets(), &[0, 1, 1, 2]);
        assert!(Cells::new(&OF).append(Cells::new(&Type::Text)).is_err());
    }
}
