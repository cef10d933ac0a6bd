//! minijinja charts without the feature `minijinja`: each of them is an error.

use super::budget::Limits;
use super::function::SharedHost;
pub use super::jinja_error::JinjaError;
use serde_json::Value;
use std::borrow::Cow;
use std::collections::BTreeSet;

/// The compiled templates of one chart: there are none.
#[derive(Debug)]
pub enum Templates {}

impl Templates {
    /// Fails.
    pub fn compile(_: usize, _: &[(String, Cow<'_, str>)]) -> Result<Self, JinjaError> {
        let message = "the templates are written in minijinja, and this program was built without the feature `minijinja` of tillerman-render";
        Err(JinjaError { message: message.to_owned(), at: None, trace: Vec::new(), missing: None })
    }

    /// Never called, because there are no templates.
    pub fn are_made_of(&self, _: usize, _: &[(String, Cow<'_, str>)]) -> bool {
        match *self {}
    }

    /// Never called, because there are no templates.
    pub fn undeclared(&self) -> BTreeSet<String> {
        match *self {}
    }

    /// Never called, because there are no templates.
    pub fn render(&self, _: &Value, _: &SharedHost, _: &Limits) -> Result<Vec<(String, String)>, JinjaError> {
        match *self {}
    }

    /// Never called, because there are no templates.
    pub fn render_one(&self, _: &str, _: &Value, _: &SharedHost, _: &Limits) -> Result<String, JinjaError> {
        match *self {}
    }
}
