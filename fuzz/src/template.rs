//! Random templates: Go's control structures around calls of all functions, with arguments that mostly fit.

use crate::random::Random;
use crate::words;
use tillerman::template::function::{Function, Param};
use tillerman::template::functions;

/// What differs from run to run, or depends on the clock.
const UNCOMPARABLE: &[&str] = &[
    "now",
    "ago",
    "randAlphaNum",
    "randAlpha",
    "randNumeric",
    "randAscii",
    "randBytes",
    "randInt",
    "shuffle",
    "uuidv4",
    "bcrypt",
    "htpasswd",
    "encryptAES",
    "genPrivateKey",
    "genCA",
    "genCAWithKey",
    "genSelfSignedCert",
    "genSelfSignedCertWithKey",
    "genSignedCert",
    "genSignedCertWithKey",
    "derivePassword",
];
/// Functions whose result grows with a number.
const GROWING: &[&str] = &["repeat", "indent", "nindent", "until", "untilStep", "seq"];
/// Functions that take what is no time for the present.
const DATES: &[&str] = &["date", "dateInZone", "date_in_zone", "htmlDate", "htmlDateInZone"];
/// Functions of Go and of the engine, which are not in the table of the others.
const ENGINE: &[&str] = &[
    "and", "or", "not", "len", "index", "slice", "print", "println", "printf", "html", "js", "urlquery", "eq", "ne",
    "lt", "le", "gt", "ge", "required", "call", "include", "tpl", "lookup", "fail",
];

/// Makes templates.
pub struct Templates<'r> {
    pub random: &'r mut Random,
    functions: Vec<&'static Function>,
    /// The variables in scope.
    variables: Vec<String>,
    count: usize,
    in_range: bool,
}

impl<'r> Templates<'r> {
    pub fn new(random: &'r mut Random) -> Self {
        let functions = functions::all().filter(|f| !UNCOMPARABLE.contains(&f.name)).collect();
        Self { random, functions, variables: Vec::new(), count: 0, in_range: false }
    }

    /// The statements of a template, each of which can be left out.
    pub fn statements(&mut self) -> Vec<String> {
        let mut all = Vec::new();
        for i in 1..3 {
            if self.random.one_in(2) {
                self.variables.clear();
                all.push(format!("{{{{ define \"t{i}\" }}}}{}{{{{ end }}}}", self.statement(2)));
            }
        }
        self.variables.clear();
        for _ in 0..1 + self.random.below(4) {
            all.push(self.statement(0));
        }
        all
    }

    fn open(&mut self) -> &'static str {
        if self.random.one_in(8) { "{{- " } else { "{{ " }
    }

    fn close(&mut self) -> &'static str {
        if self.random.one_in(8) { " -}}" } else { " }}" }
    }

    fn action(&mut self, inside: &str) -> String {
        format!("{}{inside}{}", self.open(), self.close())
    }

    fn block(&mut self, depth: usize) -> String {
        let mark = self.variables.len();
        let count = 1 + self.random.below(2);
        let text = (0..count).map(|_| self.statement(depth + 1)).collect();
        self.variables.truncate(mark);
        text
    }

    fn statement(&mut self, depth: usize) -> String {
        match self.random.below(if depth < 3 { 14 } else { 7 }) {
            0 => (*self.random.pick(&["text", "\n", "  x: ", " ", "- a\n", "{", "é"])).to_owned(),
            1..=3 => {
                let pipeline = self.pipeline(0);
                self.action(&pipeline)
            }
            4 | 5 => {
                self.count += 1;
                let (name, pipeline) = (format!("$v{}", self.count), self.pipeline(0));
                self.variables.push(name.clone());
                format!(
                    "{{{{ {name} := {pipeline} }}}}{{{{ typeOf {name} }}}}|{{{{ {name} }}}}|{{{{ toJson {name} }}}}\n"
                )
            }
            6 => match self.variables.last().cloned() {
                Some(name) => {
                    let pipeline = self.pipeline(0);
                    self.action(&format!("{name} = {pipeline}"))
                }
                None => "{{/* c */}}".to_owned(),
            },
            7 | 8 => self.branch("if", depth),
            9 => self.branch("with", depth),
            10 | 11 => self.range(depth),
            12 => {
                let (name, data) = (self.random.below(3), self.operand(Param::Any, 1));
                self.action(&format!("template \"t{name}\" {data}"))
            }
            _ => {
                self.count += 1;
                let (mark, data) = (std::mem::take(&mut self.variables), self.operand(Param::Any, 1));
                let (range, body) = (std::mem::replace(&mut self.in_range, false), self.block(depth));
                self.variables = mark;
                self.in_range = range;
                format!("{{{{ block \"b{}\" {data} }}}}{body}{{{{ end }}}}", self.count)
            }
        }
    }

    fn branch(&mut self, word: &str, depth: usize) -> String {
        let mark = self.variables.len();
        let pipeline = self.pipeline(1);
        let mut head = format!("{word} {pipeline}");
        if self.random.one_in(4) {
            self.count += 1;
            head = format!("{word} $v{} := {pipeline}", self.count);
            self.variables.push(format!("$v{}", self.count));
        }
        let mut text = self.action(&head) + &self.block(depth);
        if self.random.one_in(3) {
            let condition = self.pipeline(1);
            text += &format!("{{{{ else {word} {condition} }}}}{}", self.block(depth));
        }
        if self.random.one_in(2) {
            text += &format!("{{{{ else }}}}{}", self.block(depth));
        }
        self.variables.truncate(mark);
        text + "{{ end }}"
    }

    fn range(&mut self, depth: usize) -> String {
        let mark = self.variables.len();
        let param = *self.random.pick(&[Param::List, Param::Map, Param::Int, Param::Strings, Param::Any]);
        let over = match param {
            Param::Int => self.random.below(14).to_string(),
            param => self.operand(param, 1),
        };
        let (one, two) = (self.count + 1, self.count + 2);
        self.count += 2;
        let head = match self.random.below(3) {
            0 => format!("range {over}"),
            1 => {
                self.variables.push(format!("$v{one}"));
                format!("range $v{one} := {over}")
            }
            _ => {
                self.variables.extend([format!("$v{one}"), format!("$v{two}")]);
                format!("range $v{one}, $v{two} := {over}")
            }
        };
        let outer = std::mem::replace(&mut self.in_range, true);
        let mut body = self.action(&head) + "{{ . }}" + &self.block(depth);
        if self.random.one_in(5) {
            let (condition, word) = (self.pipeline(1), *self.random.pick(&["break", "continue"]));
            body += &format!("{{{{ if {condition} }}}}{{{{ {word} }}}}{{{{ end }}}}x");
        }
        if self.random.one_in(3) {
            body += &format!("{{{{ else }}}}{}", self.block(depth));
        }
        self.in_range = outer;
        self.variables.truncate(mark);
        body + "{{ end }}"
    }

    /// Commands, each given the result of the one before.
    fn pipeline(&mut self, depth: usize) -> String {
        let mut text = match self.random.below(3) {
            0 => self.operand(Param::Any, depth),
            _ => self.call(depth, None),
        };
        while self.random.one_in(3) {
            text = text + " | " + &self.call(depth + 1, Some(()));
        }
        text
    }

    /// A call; the last argument comes out of a pipeline if there is one.
    fn call(&mut self, depth: usize, piped: Option<()>) -> String {
        if self.random.one_in(5) {
            return self.engine_call(depth, piped);
        }
        let function = self.functions[self.random.below(self.functions.len())];
        let mut params = function.params.to_vec();
        if function.variadic {
            let last = params.pop().unwrap_or(Param::Any);
            params.extend(std::iter::repeat_n(last, self.random.below(4)));
        }
        if self.random.one_in(60) {
            params.push(Param::Any);
        }
        if piped.is_some() {
            // What is no date must not become one.
            if DATES.contains(&function.name) {
                return "toString".to_owned();
            }
            params.pop();
        }
        let mut text = function.name.to_owned();
        for (i, param) in params.iter().enumerate() {
            text = text + " " + &self.argument(function.name, i, *param, depth + 1);
        }
        match function.name {
            // Go gives them in any order.
            "keys" | "values" => text + " | sortAlpha",
            _ => text,
        }
    }

    fn engine_call(&mut self, depth: usize, piped: Option<()>) -> String {
        let name = *self.random.pick(ENGINE);
        let any = Param::Any;
        let params: Vec<Param> = match name {
            "not" | "len" => vec![any],
            "index" => {
                let first = *self.random.pick(&[Param::Map, Param::List, Param::Str]);
                return format!("index {} {}", self.operand(first, depth + 1), self.operand(any, depth + 1));
            }
            "slice" => vec![*self.random.pick(&[Param::Str, Param::List]), Param::Int, Param::Int],
            "printf" => {
                let mut text = format!("printf {}", literal(self.random.pick(words::FORMATS)));
                for _ in 0..self.random.below(3) {
                    text = text + " " + &self.operand(any, depth + 1);
                }
                return text;
            }
            "lt" | "le" | "gt" | "ge" | "ne" => vec![any; 2],
            "required" => vec![Param::Str, any],
            "include" => return format!("include \"t{}\" {}", self.random.below(3), self.operand(any, depth + 1)),
            "tpl" => {
                return format!(
                    "tpl {} {}",
                    literal(self.random.pick(words::TEMPLATES)),
                    self.random.pick(&["$", "."])
                );
            }
            "lookup" => return "lookup \"v1\" \"Pod\" \"\" \"\"".to_owned(),
            "fail" if self.random.one_in(4) => return "fail \"no\"".to_owned(),
            "fail" | "call" => return "print 1".to_owned(),
            _ => vec![any; 1 + self.random.below(3)],
        };
        let count = params.len() - usize::from(piped.is_some());
        params[..count].iter().fold(name.to_owned(), |text, param| text + " " + &self.operand(*param, depth + 1))
    }

    fn argument(&mut self, function: &str, index: usize, param: Param, depth: usize) -> String {
        let r = &mut *self.random;
        let texts: &[&str] = match (function, index) {
            _ if GROWING.contains(&function) && param == Param::Int => return (r.below(14) as i64 - 3).to_string(),
            (f, _) if DATES.contains(&f) && param == Param::Any => {
                return match r.below(3) {
                    0 => format!("(toDate {} {})", literal(r.pick(words::LAYOUTS)), literal(r.pick(words::DATES))),
                    1 => "(mustToDate \"2006-01-02\" \"2021-07-01\")".to_owned(),
                    _ => format!("{}", r.below(2_000_000_000)),
                };
            }
            ("htmlDateInZone", 1) | ("dateInZone" | "date_in_zone", 2) => words::ZONES,
            ("date" | "dateInZone" | "date_in_zone" | "toDate" | "mustToDate", 0) => words::LAYOUTS,
            ("toDate" | "mustToDate", 1) => words::DATES,
            ("fromYaml" | "fromYamlArray", _) => words::YAML,
            ("fromJson" | "fromJsonArray" | "mustFromJson", _) => words::JSON,
            ("fromToml", _) => words::TOML,
            ("semver", 0) | ("semverCompare", 1) => words::VERSIONS,
            ("semverCompare", 0) => words::CONSTRAINTS,
            ("urlParse", 0) => words::URLS,
            ("b64dec" | "b32dec" | "decryptAES", _) => words::BASE64,
            (f, 0) if f.contains("egex") => words::PATTERNS,
            (f, 2) if f.contains("egexReplace") => words::REPLACEMENTS,
            (f, 0) if f.starts_with("duration") || f == "mustToDuration" || f.contains("ate") && f.contains("odif") => {
                words::DURATIONS
            }
            ("durationRoundTo" | "durationTruncateTo", 1) => words::DURATIONS,
            (f, 0)
                if matches!(param, Param::Str)
                    && (f.starts_with("os") || matches!(f, "base" | "dir" | "clean" | "ext" | "isAbs")) =>
            {
                words::PATHS
            }
            (f, 0) if f.starts_with("typeIs") => {
                &["string", "int", "*semver.Version", "[]interface {}", "map[string]interface {}", "float64"]
            }
            ("kindIs", 0) => &["string", "int", "slice", "map", "float64", "ptr"],
            ("urlJoin", 0) if r.one_in(2) => {
                return "(dict \"host\" \"h:1\" \"scheme\" \"http\" \"path\" \"/a b\" \"query\" \"q=1\" \"userinfo\" \"u:p\" \"fragment\" \"f\")".to_owned();
            }
            _ => &[],
        };
        if !texts.is_empty() && !r.one_in(6) {
            return literal(r.pick(texts));
        }
        self.operand(param, depth)
    }

    /// Something that is mostly of the type.
    fn operand(&mut self, param: Param, depth: usize) -> String {
        if self.random.one_in(40) {
            return "nil".to_owned();
        }
        if !self.variables.is_empty() && self.random.one_in(if matches!(param, Param::Any) { 5 } else { 30 }) {
            return self.random.pick(&self.variables).clone();
        }
        if depth < 3 && self.random.one_in(6) {
            return format!("({})", self.call(depth, None));
        }
        let deep = depth < 3;
        let r = &mut *self.random;
        match param {
            Param::Str => match r.below(8) {
                0..=4 => literal(r.pick(words::TEXTS)),
                5 => "$.Values.s".to_owned(),
                6 if deep => format!("(toString {})", self.operand(Param::Any, depth + 1)),
                _ => "$.Values.t".to_owned(),
            },
            Param::Int => match r.below(8) {
                0..=4 => (r.below(12) as i64 - 2).to_string(),
                5 => (*r.pick(&[
                    "100",
                    "0x10",
                    "'a'",
                    "1e2",
                    "-0",
                    "1000000",
                    "9223372036854775807",
                    "-9223372036854775808",
                    "0b11",
                    "1_0",
                ]))
                .to_owned(),
                _ => "($.Values.i | int)".to_owned(),
            },
            Param::Int64 => "(int64 7)".to_owned(),
            Param::Float => (*r.pick(&[
                "1.5",
                "0.1",
                "-2.5e3",
                "1e300",
                "0.0",
                "$.Values.f",
                "$.Values.i",
                "3.0",
                "1e-7",
                "123456789.125",
            ]))
            .to_owned(),
            Param::Bool => (*r.pick(&["true", "false", "$.Values.b"])).to_owned(),
            Param::Map => match r.below(6) {
                0 => "$.Values.m".to_owned(),
                1 => "$.Values.e".to_owned(),
                2 => "(dict)".to_owned(),
                3 => format!("(fromYaml {})", literal(r.pick(words::YAML))),
                4 if deep => format!(
                    "(dict \"a\" {} \"b\" {})",
                    self.operand(Param::Any, depth + 1),
                    self.operand(Param::Any, depth + 1)
                ),
                _ => "(dict \"a\" 1 \"b\" (dict \"c\" \"x\" \"n\" nil))".to_owned(),
            },
            Param::List => match r.below(6) {
                0 => "$.Values.l".to_owned(),
                1 => "(list)".to_owned(),
                2 => "(list 1 \"a\" nil 2.5 true)".to_owned(),
                3 if deep => {
                    format!("(list {} {})", self.operand(Param::Any, depth + 1), self.operand(Param::Any, depth + 1))
                }
                4 => "$.Values.k".to_owned(),
                _ => "(list \"b\" \"a\" \"b\")".to_owned(),
            },
            Param::Strings => (*r.pick(&[
                "(splitList \",\" \"b,a,,c\")",
                "(keys $.Values.m | sortAlpha)",
                "(regexFindAll \"[a-z]\" \"abc\" -1)",
            ]))
            .to_owned(),
            Param::StringMap => (*r.pick(&["(split \",\" \"b,a\")", "$.Chart.Annotations"])).to_owned(),
            Param::Named("time.Time") => "(toDate \"2006-01-02 15:04\" \"2021-07-01 10:20\")".to_owned(),
            Param::Named(_) => "3".to_owned(),
            Param::Any | Param::Reflect => match r.below(16) {
                0 => "$.Values.n".to_owned(),
                1 => "$.Values.x".to_owned(),
                2 => "$.Values.nope".to_owned(),
                // The root holds pointers, which Go shows as addresses.
                3 if self.in_range => ".".to_owned(),
                3 => "$.Values.k".to_owned(),
                4 => (*r.pick(&[
                    "$.Chart",
                    "$.Chart.Name",
                    "$.Release",
                    "$.Capabilities.KubeVersion",
                    "$.Files",
                    "($.Files.Get \"a.txt\")",
                    "($.Files.Lines \"a.txt\")",
                    "($.Files.GetBytes \"a.txt\")",
                    "$.Values",
                    "$.Template",
                    "($.Files.Glob \"*\").AsConfig",
                    "$.Capabilities.KubeVersion.Major",
                    "$.Values.m.a",
                    "$.Values.x.y.z",
                    "(semver \"1.2.3-rc.1\")",
                    "$.Chart.Maintainers",
                    "$.Capabilities.APIVersions",
                    "$.Values.m.AsMap",
                    "$.Chart.Keywords",
                    "1i",
                    "($.Files.AsSecrets)",
                    "(first $.Values.l)",
                    "$.Subcharts",
                    "(until 3)",
                    "'x'",
                    "0x1p4",
                    "$.Release.Revision",
                    "$.Capabilities.HelmVersion",
                    "(urlParse \"http://h/p\")",
                    "$.Chart.Dependencies",
                    "(index $.Values.l 0)",
                    "(toDecimal \"777\")",
                ]))
                .to_owned(),
                5 | 6 => self.operand(Param::Map, depth),
                7 | 8 => self.operand(Param::List, depth),
                9 | 10 => self.operand(Param::Int, depth),
                11 => self.operand(Param::Float, depth),
                12 => {
                    let param = *r.pick(&[Param::Bool, Param::Strings, Param::StringMap, Param::Int64]);
                    self.operand(param, depth)
                }
                _ => self.operand(Param::Str, depth),
            },
        }
    }
}

/// A text as a constant of a template, in one of the two ways.
pub fn literal(text: impl AsRef<str>) -> String {
    let text = text.as_ref();
    if text.len() % 3 == 0 && !text.contains(['`', '\r', '\0']) && !text.is_empty() {
        return format!("`{text}`");
    }
    let mut out = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            c if c < ' ' || c == '\u{feff}' => out.push_str(&format!("\\u{:04x}", u32::from(c))),
            c => out.push(c),
        }
    }
    out + "\""
}
