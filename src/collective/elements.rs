//! What the elements of a call are, and how they are reduced.
#![forbid(unsafe_code)]

use super::CallOptions;
use crate::datatype::{Datatype, Op};
use crate::engine::check_factor;
use crate::error::Error;

/// What the elements of a call are, and how they are reduced.
#[derive(Debug, Clone, Copy)]
pub(super) struct Elements {
    pub(super) datatype: Datatype,
    /// `None` where nothing is reduced.
    pub(super) op: Option<Op>,
    /// Of one element.
    pub(super) bytes: usize,
    /// What this rank's are multiplied by first.
    pub(super) factor: Option<f64>,
    /// Whether operands must combine in rank order.
    pub(super) is_ordered: bool,
}

impl Elements {
    /// Elements that are moved as they are.
    pub(super) fn moved(datatype: Datatype, options: &CallOptions) -> Result<Self, Error> {
        check_unused(options, "a call that reduces nothing", None)?;
        Ok(Self { datatype, op: None, bytes: datatype.bytes(), factor: None, is_ordered: false })
    }

    /// Elements that are reduced.
    pub(super) fn reduced(
        datatype: Datatype,
        op: Op,
        options: &CallOptions,
    ) -> Result<Self, Error> {
        if !op.allows(datatype) {
            let text = format!("{op} is not for elements of type {datatype}");
            return Err(Error::InvalidArgument(text));
        }
        check_unused(options, op.name(), Some(op))?;
        let bytes = datatype.bytes();
        let elements = Self { datatype, op: Some(op), bytes, factor: None, is_ordered: false };
        match op {
            Op::PremulSum => {
                check_factor(datatype, options.factor)?;
                Ok(Self { factor: Some(options.factor), ..elements })
            }
            Op::Custom => elements.customized(options),
            _ => Ok(elements),
        }
    }

    /// Elements of the caller's own reduction.
    fn customized(self, options: &CallOptions) -> Result<Self, Error> {
        let Some(custom) = &options.custom else {
            let text = "op custom without a reduction: name one in the options";
            return Err(Error::InvalidArgument(text.into()));
        };
        let (bytes, is_ordered) = (custom.element_bytes(), !custom.is_commutative());
        let datatype = self.datatype;
        if datatype != Datatype::U8 && datatype.bytes() != bytes {
            return Err(Error::InvalidArgument(format!(
                "elements of type {datatype} have {} bytes, those of the reduction {bytes}: pass u8 as their type",
                datatype.bytes()
            )));
        }
        Ok(Self { bytes, is_ordered, ..self })
    }

    /// How many there are in the buffer called `name`.
    pub(super) fn count_of(&self, bytes: usize, name: &str) -> Result<usize, Error> {
        if bytes.is_multiple_of(self.bytes) {
            return Ok(bytes / self.bytes);
        }
        let Self { datatype, bytes: element, .. } = self;
        Err(Error::InvalidArgument(format!(
            "the {name} has {bytes} bytes: no whole number of {datatype}, of {element} bytes each"
        )))
    }
}

/// Refuses options of another operation than this one: the caller has mistaken one or the other.
fn check_unused(options: &CallOptions, what: &str, op: Option<Op>) -> Result<(), Error> {
    let factor = options.factor;
    if factor != 0.0 && op != Some(Op::PremulSum) {
        let text = format!("factor {factor} with {what}: only premul_sum has one");
        return Err(Error::InvalidArgument(text));
    }
    if options.custom.is_some() && op != Some(Op::Custom) {
        let text = format!("a reduction in the options of {what}: only op custom has one");
        return Err(Error::InvalidArgument(text));
    }
    Ok(())
}
