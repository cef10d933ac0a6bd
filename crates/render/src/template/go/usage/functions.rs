//! The values that the functions of templates read, their use, and the results of the functions.

use super::Ways;
use super::walk::{Abstract, Walk};
use std::collections::BTreeMap;

/// Functions that take a string as the last argument.
const STRINGS: &[&str] = &[
    "abbrev",
    "adler32sum",
    "b32enc",
    "b64dec",
    "b64enc",
    "base",
    "camelcase",
    "clean",
    "contains",
    "derivePassword",
    "dir",
    "ext",
    "hasPrefix",
    "hasSuffix",
    "htpasswd",
    "indent",
    "initials",
    "kebabcase",
    "lower",
    "nindent",
    "nospace",
    "osBase",
    "plural",
    "regexFind",
    "regexFindAll",
    "regexMatch",
    "regexReplaceAll",
    "regexReplaceAllLiteral",
    "regexSplit",
    "repeat",
    "replace",
    "semver",
    "semverCompare",
    "sha1sum",
    "sha256sum",
    "snakecase",
    "split",
    "splitList",
    "splitn",
    "substr",
    "swapcase",
    "title",
    "trim",
    "trimAll",
    "trimPrefix",
    "trimSuffix",
    "trunc",
    "untitle",
    "upper",
    "urlParse",
    "wrap",
    "wrapWith",
];
/// Functions that take numbers.
const NUMBERS: &[&str] = &[
    "add",
    "add1",
    "atoi",
    "ceil",
    "div",
    "float64",
    "floor",
    "int",
    "int64",
    "max",
    "min",
    "mod",
    "mul",
    "round",
    "sub",
    "toDecimal",
    "until",
    "untilStep",
];

impl Walk<'_> {
    /// The result of a function; the values that it reads are noted. `is_new`: the first argument is an expression of
    /// its own, so that nothing else has what it made.
    pub(super) fn function(&mut self, name: &str, mut args: Vec<Abstract>, is_new: bool, pos: u32) -> Abstract {
        let name = &*plain(name);
        match name {
            "include" => {
                if let [name, data] = args.as_slice() {
                    match name {
                        Abstract::Text(name) => self.call(name, data),
                        _ => self.any_template(data, pos),
                    }
                }
                Abstract::Other
            }
            "tpl" => self.tpl(&args, pos),
            "default" | "coalesce" | "and" | "or" | "ternary" | "required" | "not" | "empty" => self.test(name, args),
            "kindIs" | "kindOf" | "typeIs" | "typeOf" | "typeIsLike" => {
                if let Some(value) = args.last() {
                    self.note(value, Ways::TYPE_ASKED);
                }
                Abstract::Other
            }
            "index" => self.at(args, false),
            "get" => {
                self.note_first(&args, Ways::TABLE);
                self.at(args, true)
            }
            "hasKey" => {
                self.note_first(&args, Ways::TABLE);
                // A key that is only known at run time is requested, and not read.
                if let [table, Abstract::Text(key)] = args.as_slice() {
                    self.field(table, key);
                }
                Abstract::Other
            }
            "dig" => self.dig(args),
            "pluck" => self.pluck(args, pos),
            "dict" => dict(args),
            "list" | "tuple" => Abstract::List(Box::new(Abstract::one_of(args))),
            "deepCopy" | "copy" => self.first(args, Ways::COPIED),
            "merge" | "mergeOverwrite" => self.merge(args, is_new, pos),
            "set" => self.set(args, pos),
            "unset" | "pick" => self.first(args, Ways::TABLE),
            "omit" => self.first(args, Ways::TABLE.or(Ways::OMITTED)),
            "fromYaml" | "fromJson" | "fromYamlArray" | "fromJsonArray" => self.parsed(args, pos),
            "toYaml" | "toYamlPretty" => self.written(args, Ways::YAML, pos),
            "toJson" | "toPrettyJson" | "toRawJson" | "toToml" => self.written(args, Ways::JSON, pos),
            "nindent" | "indent" if matches!(args.last(), Some(Abstract::Yaml(_))) => {
                args.pop().unwrap_or(Abstract::Other)
            }
            "first" | "last" => {
                let list = self.first(args, Ways::LIST);
                self.item(&list)
            }
            "values" => {
                let table = self.first(args, Ways::TABLE.or(Ways::KEYS));
                Abstract::List(Box::new(self.item(&table)))
            }
            "rest" | "initial" | "uniq" | "compact" | "reverse" | "sortAlpha" | "slice" | "append" | "prepend"
            | "without" | "concat" => self.list_of(name, args),
            "printf" => self.printf(&args, pos),
            name => self.consume(name, &args, pos),
        }
    }

    /// A function whose result is not a value of the chart.
    fn consume(&mut self, name: &str, args: &[Abstract], pos: u32) -> Abstract {
        let ways = match name {
            "keys" => Ways::TABLE.or(Ways::KEYS),
            "len" => Ways::LENGTH,
            "quote" | "squote" | "toString" => Ways::QUOTED,
            "eq" | "ne" | "lt" | "gt" | "le" | "ge" | "print" | "println" | "cat" => Ways::COMPARED,
            "lookup" | "fail" => Ways::NONE,
            name if NUMBERS.contains(&name) => Ways::NUMBER,
            _ => Ways::PASSED,
        };
        let last = match name {
            "has" => Ways::LIST,
            "join" => Ways::JOIN,
            name if STRINGS.contains(&name) => Ways::STRING,
            _ => ways,
        };
        for (at, arg) in args.iter().enumerate() {
            self.read(arg, pos);
            self.note(arg, if at + 1 == args.len() { last } else { ways });
        }
        Abstract::Other
    }

    /// A function that asks whether values are empty, and answers with one of them or with a boolean.
    fn test(&mut self, name: &str, mut args: Vec<Abstract>) -> Abstract {
        let tested = match (name, args.len()) {
            ("default", 2) => 1..2,
            ("ternary", 3) => 2..3,
            ("coalesce" | "default" | "ternary", _) => 0..0,
            ("required", count) => count.saturating_sub(1)..count,
            (_, count) => 0..count,
        };
        for value in &args[tested] {
            self.note(value, Ways::TESTED);
        }
        match name {
            "not" | "empty" => Abstract::Other,
            "required" => args.pop().unwrap_or(Abstract::Other).guarded(),
            "ternary" => {
                args.truncate(2);
                Abstract::one_of(args).guarded()
            }
            _ => {
                // Of `default`, the value comes first, as the one that is meant.
                args.reverse();
                Abstract::one_of(args).guarded()
            }
        }
    }

    fn tpl(&mut self, args: &[Abstract], pos: u32) -> Abstract {
        self.usage.has_tpl = true;
        match args.first() {
            Some(Abstract::Yaml(text)) => self.note(text, Ways::TPL_YAML),
            Some(text) => self.note(text, Ways::TPL),
            None => {}
        }
        for arg in args.iter().filter(|arg| !matches!(arg, Abstract::Root(_))) {
            self.read_quietly(arg, pos);
        }
        Abstract::Other
    }

    /// The content of a text that was parsed: for one that was just written, the written value.
    fn parsed(&mut self, mut args: Vec<Abstract>, pos: u32) -> Abstract {
        match args.pop() {
            Some(Abstract::Yaml(inner)) => *inner,
            Some(text) => {
                self.read(&text, pos);
                self.note(&text, Ways::STRING);
                Abstract::Other
            }
            None => Abstract::Other,
        }
    }

    /// The first argument.
    fn first(&mut self, args: Vec<Abstract>, ways: Ways) -> Abstract {
        self.note_first(&args, ways);
        args.into_iter().next().unwrap_or(Abstract::Other)
    }

    fn note_first(&mut self, args: &[Abstract], ways: Ways) {
        if let Some(first) = args.first() {
            self.note(first, ways);
        }
    }

    fn written(&mut self, mut args: Vec<Abstract>, ways: Ways, pos: u32) -> Abstract {
        let Some(value) = args.pop() else { return Abstract::Other };
        self.read(&value, pos);
        self.note(&value, ways);
        Abstract::Yaml(Box::new(value))
    }

    /// Each verb of the format uses an argument: `%T` asks for its type.
    fn printf(&mut self, args: &[Abstract], pos: u32) -> Abstract {
        let Some((format, args)) = args.split_first() else { return Abstract::Other };
        let format = if let Abstract::Text(text) = format { &**text } else { "" };
        let mut verbs = format.split('%').skip(1).filter(|verb| !verb.is_empty());
        for arg in args {
            let verb = verbs.next().and_then(|verb| verb.chars().find(char::is_ascii_alphabetic));
            self.read(arg, pos);
            self.note(arg, if verb == Some('T') { Ways::TYPE_ASKED } else { Ways::COMPARED });
        }
        Abstract::Other
    }

    /// A list with the items of others, or with more or fewer.
    fn list_of(&mut self, name: &str, args: Vec<Abstract>) -> Abstract {
        let is_concat = name.ends_with("oncat");
        let mut lists = Vec::new();
        for (at, arg) in args.into_iter().enumerate() {
            // `slice LIST FROM TO`: only the first is a list.
            if at == 0 || is_concat {
                self.note(&arg, Ways::LIST);
                lists.push(arg);
            } else {
                lists.push(Abstract::List(Box::new(arg)));
            }
        }
        Abstract::one_of(lists)
    }

    fn merge(&mut self, args: Vec<Abstract>, is_new: bool, pos: u32) -> Abstract {
        for arg in &args {
            self.note(arg, Ways::TABLE.or(Ways::MERGED));
        }
        // The first is changed, and may be known by another name.
        if let Some(first) = args.first().filter(|_| !is_new) {
            self.write(first);
            for arg in args.iter().skip(1) {
                self.read_quietly(arg, pos);
            }
        }
        Abstract::one_of(args).guarded()
    }

    fn set(&mut self, args: Vec<Abstract>, pos: u32) -> Abstract {
        let mut args = args.into_iter();
        let changed = args.next().unwrap_or(Abstract::Other);
        self.note(&changed, Ways::TABLE.or(Ways::WRITTEN));
        if let (Some(Abstract::Text(key)), Abstract::Value(path, _)) = (args.next(), &changed) {
            let below = path.iter().cloned().chain([key]).collect();
            self.note(&Abstract::Value(below, true), Ways::WRITTEN);
        }
        if let Some(value) = args.next() {
            self.read_quietly(&value, pos);
        }
        self.write(&changed);
        changed
    }

    /// `include` of a name that is only known at run time.
    fn any_template(&mut self, data: &Abstract, pos: u32) {
        self.note(data, Ways::PASSED);
        if !matches!(data, Abstract::Root(_)) {
            return self.read_quietly(data, pos);
        }
        self.conditions += 1;
        let names: Vec<_> = self.set.templates().map(|t| t.name.clone()).collect();
        for name in names {
            self.call(&name, data);
        }
        self.conditions -= 1;
    }

    /// A table's or list's entry by keys.
    fn at(&mut self, args: Vec<Abstract>, guarded: bool) -> Abstract {
        let mut args = args.into_iter();
        let mut value = args.next().unwrap_or(Abstract::Other);
        for key in args {
            value = match &key {
                Abstract::Text(key) => self.field(&value, key),
                _ => self.item(&value),
            };
        }
        if guarded { value.guarded() } else { value }
    }

    fn dig(&mut self, mut args: Vec<Abstract>) -> Abstract {
        let Some(table) = args.pop() else { return Abstract::Other };
        let default = args.pop().unwrap_or(Abstract::Other);
        args.insert(0, table);
        let found = self.at(args, true);
        Abstract::one_of(vec![found, default]).guarded()
    }

    fn pluck(&mut self, args: Vec<Abstract>, pos: u32) -> Abstract {
        let mut args = args.into_iter();
        let key = args.next();
        let tables: Vec<_> = args.collect();
        let found = tables.iter().map(|table| {
            if let Some(Abstract::Text(key)) = &key {
                return self.field(table, key);
            }
            self.note(table, Ways::TABLE);
            self.read_quietly(table, pos);
            self.item(table)
        });
        let found = found.collect();
        Abstract::List(Box::new(Abstract::one_of(found).guarded()))
    }
}

/// The name without `must`, which changes only how a function fails.
fn plain(name: &str) -> String {
    match name.strip_prefix("must").and_then(|rest| rest.split_at_checked(1)) {
        Some((first, rest)) => first.to_ascii_lowercase() + rest,
        None => name.to_owned(),
    }
}

fn dict(args: Vec<Abstract>) -> Abstract {
    let mut entries = BTreeMap::new();
    let mut unnamed = Vec::new();
    let mut args = args.into_iter();
    while let (Some(key), Some(value)) = (args.next(), args.next()) {
        match key {
            Abstract::Text(key) => drop(entries.insert(key, value)),
            _ => unnamed.push(value),
        }
    }
    if unnamed.is_empty() {
        return Abstract::Dict(entries);
    }
    unnamed.extend(entries.into_values());
    Abstract::one_of(unnamed)
}
