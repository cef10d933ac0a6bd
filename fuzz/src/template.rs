//! Random templates: Go's control structures around calls of all functions, with arguments that mostly fit.

use crate::random::Random;
use crate::{vary, words};
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

/// Methods of what functions give.
const METHODS: &[&str] = &[
    "((toDate \"2006-01-02\" \"2021-07-31\").AddDate 0 1 -3)",
    "(toDate \"2006-01-02\" \"2021-07-01\").Weekday",
    "(toDate \"2006-01-02 MST\" \"2021-07-01 CEST\").Month",
    "((toDate \"2006-01-02\" \"2021-07-01\").Format \"Jan 2006\")",
    "(toDate \"2006-01-02\" \"2021-07-01\").Unix",
    "(toDate \"2006-01-02\" \"2021-07-01\").UTC",
    "((toDate \"2006\" \"2021\").Sub (toDate \"2006\" \"2020\"))",
    "(mustToDuration \"90m\").Hours",
    "((mustToDuration \"90m31s\").Round (mustToDuration \"1m\"))",
    "(semver \"1.2.3-rc.1+b\").Major",
    "(semver \"1.2.3-rc.1+b\").Prerelease",
    "(semver \"v1.2\").Original",
    "((semver \"1.2.3\").Compare (semver \"1.3.0\"))",
    "(semver \"1.2.3\").IncMinor",
    "($.Values.Table \"m.b\")",
    "($.Values.PathValue \"m.b.c\")",
    "$.Values.YAML",
    "($.Capabilities.APIVersions.Has \"v1\")",
    "($.Files.Glob \"**.b*\")",
    "($.Files.Glob \"{a,d/*}.[tb]?[tn]\")",
    "$.Capabilities.KubeVersion.String",
    "$.Chart.Foo",
    "$.Release.Foo.Bar",
    "$.Values.s.x",
    "$.Values.i.x",
    "$.Values.n.x",
    "$.Values.l.x",
    "$nope",
    "$.Template.Name",
    "$.Release.IsInstall",
];

/// Makes templates.
pub struct Templates<'r> {
    pub random: &'r mut Random,
    functions: Vec<&'static Function>,
    /// The variables in scope, and what they mostly are.
    variables: Vec<(String, Param)>,
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
        if self.random.one_in(10) {
            let at = self.random.below(all.len());
            all[at] = vary::template(self.random, &all[at]);
        }
        all
    }

    fn open(&mut self) -> &'static str {
        match self.random.below(16) {
            0 | 1 => "{{- ",
            2 => "{{\n",
            3 => "{{",
            _ => "{{ ",
        }
    }

    fn close(&mut self) -> &'static str {
        match self.random.below(16) {
            0 | 1 => " -}}",
            2 => "\n}}",
            3 => "}}",
            _ => " }}",
        }
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
        match self.random.below(if depth < 3 { 17 } else { 7 }) {
            0 => (*self.random.pick(&["text", "\n", "  x: ", " ", "- a\n", "{", "é"])).to_owned(),
            1..=3 => {
                let pipeline = self.pipeline(0);
                self.action(&pipeline)
            }
            4 | 5 => {
                self.count += 1;
                let name = format!("$v{}", self.count);
                let param = *self.random.pick(&[
                    Param::Any,
                    Param::Any,
                    Param::Map,
                    Param::List,
                    Param::Strings,
                    Param::Str,
                    Param::Int,
                ]);
                let pipeline = if matches!(param, Param::Any) { self.pipeline(0) } else { self.operand(param, 0) };
                self.variables.push((name.clone(), param));
                format!(
                    "{{{{ {name} := {pipeline} }}}}{{{{ typeOf {name} }}}}|{{{{ {name} }}}}|{{{{ toJson {name} }}}}\n"
                )
            }
            6 => match self.variables.last().cloned() {
                Some((name, param)) => {
                    let pipeline = if self.random.one_in(2) { self.operand(param, 0) } else { self.pipeline(0) };
                    self.action(&format!("{name} = {pipeline}"))
                }
                None => {
                    (*self.random.pick(&["{{/* c */}}", "{{- /* a\nb */ -}}", " {{- /* c */}}\n", "{{- \"x\" -}} "]))
                        .to_owned()
                }
            },
            7 | 8 => self.branch("if", depth),
            9 => self.branch("with", depth),
            10 | 11 => self.range(depth),
            12 => self.alias(),
            13 if self.random.one_in(3) => {
                let again = "{{ if gt (int .n) 0 }}{{ .n }}{{ include \"rec\" (dict \"n\" (sub (int .n) 1) \"x\" .x) }}{{ end }}";
                let (data, pipeline) = (
                    self.operand(Param::Any, 1),
                    self.random.pick(&["{{ .x }}", "{{ .x.y }}", "{{ $.x | toJson }}", ""]),
                );
                format!(
                    "{{{{ define \"rec\" }}}}{again}{pipeline}{{{{ end }}}}{{{{ include \"rec\" (dict \"n\" 3 \"x\" {data}) }}}}"
                )
            }
            14 => {
                let inner = self.statement(depth + 1);
                let data = *self.random.pick(&["$", ".", "(dict \"Template\" $.Template)"]);
                self.action(&format!("tpl {} {data}", literal(inner)))
            }
            15 => {
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

    /// A map or list under two names, changed under one of them.
    fn alias(&mut self) -> String {
        self.count += 2;
        let (one, two) = (format!("$v{}", self.count - 1), format!("$v{}", self.count));
        if self.random.one_in(3) {
            let list = self.operand(Param::Strings, 0);
            let part = match self.random.below(3) {
                0 => one.clone(),
                1 => format!("slice {one} {} {}", self.random.below(2), self.random.below(5)),
                _ => format!(
                    "{} {one}",
                    self.random.pick(&["deepCopy", "toStrings", "rest", "initial", "reverse", "uniq", "concat"])
                ),
            };
            let sorted = *self.random.pick(&["sortAlpha", "sortAlpha", "toStrings", "mustReverse"]);
            let by = self.random.pick(&[&one, &two]).to_string();
            return format!(
                "{{{{ {one} := {list} }}}}{{{{ {two} := {part} }}}}{{{{ {sorted} {by} }}}}{{{{ {one} }}}}{{{{ {two} }}}}\n"
            );
        }
        let (map, other) = (self.operand(Param::Map, 0), self.operand(Param::Map, 1));
        let alias = match self.random.below(4) {
            0 => format!("{one}.b"),
            1 => format!("get {one} \"b\""),
            2 => format!(
                "{} {one}",
                self.random.pick(&["deepCopy", "merge (dict)", "mergeOverwrite (dict)", "pick", "omit", "dict \"b\""])
            ),
            _ => one.clone(),
        };
        let value = *self.random.pick(&["1", "nil", "\"x\"", "(list 1)", "(dict \"y\" 2)"]);
        let key = *self.random.pick(&["a", "b", "z"]);
        let by = self.random.pick(&[&one, &two]).to_string();
        let change = match self.random.below(4) {
            0 => format!("unset {by} \"{key}\""),
            1 => format!(
                "{} {by} {other}",
                self.random.pick(&["merge", "mergeOverwrite", "mustMerge", "mustMergeOverwrite"])
            ),
            _ => format!("set {by} \"{key}\" {value}"),
        };
        format!(
            "{{{{ {one} := {map} }}}}{{{{ {two} := {alias} }}}}{{{{ $_ := {change} }}}}{{{{ toJson {one} }}}}{{{{ toJson {two} }}}}{{{{ toJson $.Values.m }}}}\n"
        )
    }

    fn branch(&mut self, word: &str, depth: usize) -> String {
        let mark = self.variables.len();
        let pipeline = self.pipeline(1);
        let mut head = format!("{word} {pipeline}");
        if self.random.one_in(4) {
            self.count += 1;
            head = format!("{word} $v{} := {pipeline}", self.count);
            self.variables.push((format!("$v{}", self.count), Param::Any));
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
                self.variables.push((format!("$v{one}"), Param::Any));
                format!("range $v{one} := {over}")
            }
            _ => {
                self.variables.extend([format!("$v{one}"), format!("$v{two}")].map(|name| (name, Param::Any)));
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
    pub fn pipeline(&mut self, depth: usize) -> String {
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
                let format = if self.random.one_in(2) {
                    vary::format(self.random)
                } else {
                    vary::word(self.random, words::FORMATS)
                };
                let mut text = format!("printf {}", literal(format));
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
                    literal(vary::word(self.random, words::TEMPLATES)),
                    self.random.pick(&["$", "."])
                );
            }
            "lookup" => return "lookup \"v1\" \"Pod\" \"\" \"\"".to_owned(),
            "fail" if self.random.one_in(4) => return format!("fail {}", self.operand(Param::Str, 3)),
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
            return if r.one_in(40) { vary::bytes(r).to_owned() } else { literal(vary::word(r, texts)) };
        }
        self.operand(param, depth)
    }

    /// Something that is mostly of the type.
    fn operand(&mut self, param: Param, depth: usize) -> String {
        if self.random.one_in(40) {
            return "nil".to_owned();
        }
        if !self.variables.is_empty() && self.random.one_in(if matches!(param, Param::Any) { 5 } else { 30 }) {
            return self.random.pick(&self.variables).0.clone();
        }
        let fitting: Vec<String> =
            self.variables.iter().filter(|(_, kind)| *kind == param).map(|(name, _)| name.clone()).collect();
        if !matches!(param, Param::Any) && !fitting.is_empty() && self.random.one_in(3) {
            return self.random.pick(&fitting).clone();
        }
        if depth < 3 && self.random.one_in(6) {
            return format!("({})", self.call(depth, None));
        }
        let deep = depth < 3;
        let r = &mut *self.random;
        match param {
            Param::Str => match r.below(8) {
                0..=3 => literal(vary::word(r, words::TEXTS)),
                4 if r.one_in(3) => vary::bytes(r).to_owned(),
                4 | 5 => "$.Values.s".to_owned(),
                6 if deep => format!("(toString {})", self.operand(Param::Any, depth + 1)),
                _ => "$.Values.t".to_owned(),
            },
            Param::Int => match r.below(9) {
                8 => vary::number(r),
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
            Param::Int64 => format!("(int64 {})", vary::number(r)),
            Param::Float if r.one_in(3) => vary::number(r),
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
            Param::Map => match r.below(8) {
                6 => format!("(fromJson {})", literal(crate::chart::table(r, 3).to_string())),
                7 => (*r.pick(&[
                    "$.Values",
                    "$.Values.m.b",
                    "(dict \"a\" $.Values.m)",
                    "(deepCopy $.Values.m)",
                    "(merge (dict) $.Values.m)",
                    "$.Values.AsMap",
                ]))
                .to_owned(),
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
            Param::List => match r.below(8) {
                6 => format!("(fromJsonArray {})", literal(crate::chart::list(r).to_string())),
                7 => (*r.pick(&[
                    "(until 5)",
                    "(append $.Values.l 1)",
                    "(concat $.Values.l $.Values.k)",
                    "(slice (list 3 1 2) 1)",
                    "(chunk 2 (list 1 2 3))",
                    "$.Capabilities.APIVersions",
                    "(values $.Values.m.b)",
                    "(without (list 1 2 3) 2)",
                ]))
                .to_owned(),
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
                "(regexFindAll \"[a-z]\" \"cab\" -1)",
                "(splitList \"\" \"hello\")",
                "(regexSplit \"[,;]\" \"d;c,b\" -1)",
                "(toStrings (list 3 \"b\" 1.5))",
                "($.Files.Lines \"a.txt\")",
                "(list \"x\" \"a\" | sortAlpha)",
            ]))
            .to_owned(),
            Param::StringMap => (*r.pick(&["(split \",\" \"b,a\")", "$.Chart.Annotations"])).to_owned(),
            Param::Named("time.Time") => "(toDate \"2006-01-02 15:04\" \"2021-07-01 10:20\")".to_owned(),
            Param::Named(_) => "3".to_owned(),
            Param::Any | Param::Reflect => match r.below(19) {
                16 => vary::number(r),
                17 if deep => {
                    let field = *r.pick(&["a", "b", "b.c", "x.y.z", "Values", "Name", "Error"]);
                    let of = if r.one_in(2) {
                        self.operand(Param::Map, depth + 1)
                    } else {
                        self.operand(Param::Any, depth + 1)
                    };
                    if of.starts_with('$') || of.starts_with('(') {
                        format!("{of}.{field}")
                    } else {
                        format!("({of}).{field}")
                    }
                }
                18 => (*r.pick(METHODS)).to_owned(),
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
