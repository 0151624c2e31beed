//! Pictures of rows: lines along an axis, and bars of ratios.

mod bars;
mod chart;
mod scale;
mod svg;

pub(crate) use bars::{Bars, bars};
pub(crate) use chart::charts;
#[cfg(test)]
pub(crate) use svg::elements;
pub(crate) use svg::escape;
