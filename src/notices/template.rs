//! The words of messages, in minijinja.
//!
//! The author of a notice writes its templates, so these must not be able to stop the operator. [`grammar`] says what a
//! template can be; no value in it is larger than the facts. Instructions, output, the bytes that filters take, and time are limited:
//! [`LIMITS`].

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use minijinja::syntax::SyntaxConfig;
use minijinja::value::{Serde, Value, ValueKind};
use minijinja::{Environment, Error, ErrorKind, filters};

use super::error::NoticeError;
use super::grammar;
use crate::harm;

/// The limits of rendering a template.
#[derive(Clone, Copy, Debug)]
pub struct NoticeLimits {
    /// Instructions of minijinja.
    pub instructions: u64,
    /// Bytes that are printed.
    pub output: usize,
    /// Bytes that filters are given and make.
    pub filtered: usize,
    /// The time of one rendering.
    pub time: Duration,
}

/// The limits of a template of a notice.
pub const LIMITS: NoticeLimits =
    NoticeLimits { instructions: 50_000, output: 32 << 10, filtered: 1 << 20, time: Duration::from_secs(2) };
/// Bytes of what `join` puts between.
const SEPARATOR: usize = 16;

/// A filter that makes a text of a text.
type TextFilter = fn(&str) -> String;

/// A template that was checked.
#[derive(Clone, Debug)]
pub struct Template(String);

impl Template {
    /// Reads a template of at most this many bytes.
    ///
    /// # Errors
    /// Why it cannot be used.
    pub fn read(text: &str, most: usize) -> Result<Self, NoticeError> {
        if text.len() > most {
            return Err(format!("it has {} bytes; the limit is {most}", text.len()).into());
        }
        if !harm::is_unlimited() {
            grammar::check(text)?;
        }
        let template = Self(text.to_owned());
        template.environment(&Arc::new(Meter::new(LIMITS)))?;
        Ok(template)
    }

    fn environment(&self, meter: &Arc<Meter>) -> Result<Environment<'_>, NoticeError> {
        let mut environment = Environment::empty();
        environment.set_fuel((!harm::is_unlimited()).then_some(meter.limits.instructions));
        environment.set_recursion_limit(20);
        let syntax = SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).build();
        environment.set_syntax(syntax?);
        let texts: [(_, TextFilter); 3] =
            [("upper", str::to_uppercase), ("lower", str::to_lowercase), ("trim", |text| text.trim().to_owned())];
        for (name, filter) in texts {
            let meter = Arc::clone(meter);
            environment.add_filter(name, move |text: &str| meter.take(text.len()).map(|()| filter(text)));
        }
        environment.add_filter("length", filters::length);
        environment.add_filter("first", filters::first);
        environment.add_filter("last", filters::last);
        environment.add_filter("default", filters::default);
        let joining = Arc::clone(meter);
        environment.add_filter("join", move |list: &Value, between: Option<&str>| join(list, between, &joining));
        environment.add_template("text", &self.0)?;
        Ok(environment)
    }

    /// The text for these facts.
    ///
    /// # Errors
    /// Why there is none.
    pub fn render(&self, facts: &serde_json::Value) -> Result<String, NoticeError> {
        self.render_within(facts, LIMITS)
    }

    fn render_within(&self, facts: &serde_json::Value, limits: NoticeLimits) -> Result<String, NoticeError> {
        let meter = Arc::new(Meter::new(limits));
        let environment = self.environment(&meter)?;
        let template = environment.get_template("text")?;
        let mut output = Output(Vec::new(), &meter);
        template.render_captured_to(Value::from(Serde(facts)), &mut output)?;
        Ok(String::from_utf8(output.0)?)
    }
}

/// The resources that one rendering has used.
struct Meter {
    limits: NoticeLimits,
    filtered: AtomicUsize,
    end: Instant,
}

impl Meter {
    fn new(limits: NoticeLimits) -> Self {
        Self { limits, filtered: AtomicUsize::new(0), end: Instant::now() + limits.time }
    }

    /// Takes bytes for a filter, before the filter makes anything.
    fn take(&self, bytes: usize) -> Result<(), Error> {
        let refused = |why: String| Err(Error::new(ErrorKind::InvalidOperation, why));
        if self.is_late() {
            return refused(self.late());
        }
        let most = self.limits.filtered;
        if self.filtered.fetch_add(bytes, Ordering::Relaxed).saturating_add(bytes) > most {
            return refused(format!("filters are given more than {most} bytes"));
        }
        Ok(())
    }

    fn is_late(&self) -> bool {
        Instant::now() > self.end && !harm::is_unlimited()
    }

    fn late(&self) -> String {
        format!("it takes more than {} seconds", self.limits.time.as_secs_f32())
    }
}

/// Output that ends.
struct Output<'m>(Vec<u8>, &'m Meter);

impl io::Write for Output<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let most = self.1.limits.output;
        if self.0.len() + bytes.len() > most && !harm::is_unlimited() {
            return Err(io::Error::other(format!("it prints more than {most} bytes")));
        }
        if self.1.is_late() {
            return Err(io::Error::other(self.1.late()));
        }
        self.0.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Joins a list of texts and numbers.
fn join(list: &Value, between: Option<&str>, meter: &Meter) -> Result<String, Error> {
    let between = between.unwrap_or(", ");
    let wrong = || {
        let what = format!("join takes a list of texts or numbers, and a separator of at most {SEPARATOR} bytes");
        Error::new(ErrorKind::InvalidOperation, what)
    };
    if list.kind() != ValueKind::Seq || between.len() > SEPARATOR {
        return Err(wrong());
    }
    let mut text = String::new();
    for (at, item) in list.try_iter()?.enumerate() {
        let number = (item.kind() == ValueKind::Number).then(|| item.to_string());
        let item = number.as_deref().or(item.as_str()).ok_or_else(wrong)?;
        meter.take(item.len() + between.len())?;
        if at > 0 {
            text.push_str(between);
        }
        text.push_str(item);
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::{LIMITS, NoticeError, NoticeLimits, Template};
    use serde_json::json;
    use std::time::Duration;

    fn render_within(text: &str, limits: NoticeLimits) -> Result<String, NoticeError> {
        let lines = json!([{"name": "a", "count": 3}, {"name": "{{ b }}", "count": 1}]);
        let facts = json!({"name": "shop", "lines": lines, "names": ["x", "y"], "long": "x".repeat(8000)});
        Template::read(text, 8192)?.render_within(&facts, limits)
    }

    fn render(text: &str) -> Result<String, NoticeError> {
        render_within(text, LIMITS)
    }

    #[test]
    fn templates_print_facts() {
        for (text, expected) in [
            ("[{{ name|upper }}] {{ names|join(' and ') }} + 1 * 2 ~", "[SHOP] x and y + 1 * 2 ~"),
            ("{% for l in lines %}{{ l.name }}={{ l.count }};{% endfor %}", "a=3;{{ b }}=1;"),
            ("{% if lines|length > 1 %}many{% else %}one{%+ endif %}", "many"),
            ("{% if name == 'shop' and not nothing %}yes{% endif %}{{ lines[-1].count }}", "yes1"),
            ("{{ '}} ~ ' }}{{ nothing|default('none') }}{# ~ #}", "}} ~ none"),
        ] {
            assert_eq!(render(text).as_deref(), Ok(expected), "{text}");
        }
    }

    /// Eight levels of lists of 60 references each, compared: 60^8 leaves in 2,279 bytes.
    fn shared_lists() -> String {
        let references = |name: &str| vec![name; 60].join(",");
        let level = format!("{{% for x,y in [[[{}],[{}]]] %}}", references("x"), references("y"));
        format!(
            "{{% for x,y in [[[1,1],[1,1]]] %}}{}{{% if x == y %}}E{{% endif %}}{}",
            level.repeat(8),
            "{% endfor %}".repeat(9)
        )
    }

    #[test]
    fn what_could_grow_or_never_end_is_refused() {
        let everything = "{% for a in names %}".repeat(14) + "x" + &"{% endfor %}".repeat(14);
        let many = "{% for a in lines %}".repeat(9) + "{{ long|upper|length }}" + &"{% endfor %}".repeat(9);
        let much = "{{ long }}".repeat(5);
        for (text, part) in [
            (&*shared_lists(), "',' does not exist"),
            ("{{ lines|upper }}", "value is not a string"),
            ("{{ lines|join }}", "join takes a list of texts"),
            ("{{ name|join }}", "join takes a list of texts"),
            (&*everything, "out of fuel"),
            (&*many, "filters are given more than 1048576 bytes"),
            (&*much, "it prints more than 32768 bytes"),
        ] {
            let said = render(text).expect_err(text).to_string();
            assert!(said.contains(part), "{text}: {said}");
        }
    }

    #[test]
    fn a_rendering_ends_at_its_deadline() {
        let limits = NoticeLimits { time: Duration::ZERO, ..LIMITS };
        for text in ["{{ name }}", "{% if name|upper %}{% endif %}"] {
            assert!(
                render_within(text, limits).unwrap_err().to_string().contains("it takes more than 0 seconds"),
                "{text}"
            );
        }
    }
}
