//! Which values templates read, and how they use them, found without executing them.
//!
//! Templates are walked with an abstract context: a field becomes a longer path, `include` walks the other template
//! with its argument, and an argument of a function is read as a whole. If it is not known what is read, more is
//! reported as read than is: a value that is reported as unread is certainly unread.

mod functions;
mod uses;
mod walk;

use super::render::TemplateSet;
use crate::template::trace::Location;
use std::collections::{BTreeMap, BTreeSet};
pub use uses::{Uses, Ways};

/// Keys from the values inwards; [`ANY`] represents every key or item.
pub type Path = Vec<Box<str>>;

/// Every key of a table, and every item of a list.
pub const ANY: &str = "*";

/// The values that templates read.
#[derive(Debug, Default)]
pub struct Usage {
    /// Values that are looked at themselves: tested, or read on the way to others.
    pub touched: BTreeSet<Path>,
    /// Values that are read with everything in them.
    pub whole: BTreeSet<Path>,
    /// Values that are always printed and have no default, and the first place of each.
    pub bare: BTreeMap<Path, Location>,
    /// Values that templates change, so that what is in them is not only what the chart and the user gave.
    pub written: BTreeSet<Path>,
    /// Whether texts are executed that are not part of the templates.
    pub has_tpl: bool,
    /// How each value is used.
    pub uses: BTreeMap<Path, Uses>,
}

impl Usage {
    /// Whether templates may change a value.
    pub fn is_written(&self, path: &[Box<str>]) -> bool {
        self.written.iter().any(|written| written.iter().zip(path).all(|(a, b)| **a == *ANY || a == b))
    }

    /// Whether a value, or something in it, may be read.
    pub fn is_read(&self, path: &[Box<str>]) -> bool {
        let along = |read: &Path| read.iter().zip(path).all(|(a, b)| **a == *ANY || **b == *ANY || a == b);
        self.whole.iter().any(along) || self.touched.iter().any(|read| read.len() >= path.len() && along(read))
    }
}

/// A template that is executed with the root object, and where that object's values are among those of the outermost chart.
pub type Entry<'n> = (&'n str, Path);

impl TemplateSet {
    /// The values that the named templates read when each is executed with the root object of its chart, and those that
    /// the templates of the files `partials`, which only others call, would read with the root object of the outermost
    /// chart.
    pub fn usage(&self, files: &[Entry<'_>], partials: &[&str]) -> Usage {
        walk::usage(self, files, partials)
    }
}

#[cfg(test)]
mod tests {
    use super::super::TemplateSet;
    use super::{Path, Ways};
    use crate::template::functions;

    /// The values that a template reads: whole values, then bare ones.
    fn read(text: &str) -> (Vec<String>, Vec<String>) {
        let mut set = TemplateSet::new(functions::table());
        set.parse("c/templates/a.yaml", text).unwrap();
        let usage = set.usage(&[("c/templates/a.yaml", Vec::new())], &[]);
        let show = |path: &Path| path.join(".");
        (usage.whole.iter().map(show).collect(), usage.bare.keys().map(show).collect())
    }

    #[test]
    fn what_is_printed_or_passed_on_is_read() {
        for (text, whole, bare) in [
            ("{{ .Values.a.b }}", "a.b", "a.b"),
            ("{{ with .Values.a }}{{ .b }}{{ $.Values.c }}{{ end }}", "a.b c", ""),
            ("{{ range $k, $v := .Values.a }}{{ $v.b }}{{ end }}", "a.*.b", ""),
            ("{{ if .Values.a }}{{ end }}", "", ""),
            ("{{ .Values.a | default .Values.b | quote }}", "a b", ""),
            ("{{ $x := .Values.a }}{{ toYaml $x.b | nindent 2 }}", "a.b", "a.b"),
            ("{{ define \"t\" }}{{ .ctx.Values.a }}{{ end }}{{ include \"t\" (dict \"ctx\" $) }}", "a", "a"),
            ("{{ define \"t\" }}{{ .Values.a }}{{ end }}{{ include (print \"t\" .Chart.Name) . }}", "a", ""),
            ("{{ index .Values \"a\" \"b-c\" }}", "a.b-c", "a.b-c"),
            ("{{ index .Values.a .Values.b }}", "a.*", ""),
            ("{{ dig \"a\" \"b\" \"x\" .Values.c }}", "c.a.b", ""),
            ("{{ $x := \"\" }}{{ range .Values.l }}{{ $x = .y }}{{ end }}{{ $x }}", "l.*.y", ""),
            ("{{ $m := merge (dict) .Values.a .Values.b }}{{ $m.c }}", "a.c b.c", ""),
            ("{{ toYaml .Values }}", "", ""),
            ("{{ required \"x\" .Values.a }}", "a", ""),
        ] {
            let (got_whole, got_bare) = read(text);
            assert_eq!((got_whole.join(" "), got_bare.join(" ")), (whole.into(), bare.into()), "{text}");
        }
    }

    #[test]
    fn a_recursion_ends() {
        let (whole, _) =
            read("{{ define \"t\" }}{{ range . }}{{ include \"t\" . }}{{ end }}{{ end }}{{ include \"t\" .Values.a }}");
        assert!(whole.iter().all(|path| path.starts_with("a.*")), "{whole:?}");
    }

    /// How a template uses the value `a`.
    fn ways(text: &str) -> (Ways, Vec<String>, Vec<String>) {
        let mut set = TemplateSet::new(functions::table());
        set.parse("c/templates/a.yaml", text).unwrap();
        let usage = set.usage(&[("c/templates/a.yaml", Vec::new())], &[]);
        let uses = usage.uses.get(&Path::from(["a".into()])).cloned().unwrap_or_default();
        let keys = |keys: std::collections::BTreeSet<Option<Box<str>>>| {
            keys.into_iter().map(|key| key.map_or("-".into(), String::from)).collect()
        };
        (uses.ways, keys(uses.written_under), keys(uses.printed_under))
    }

    #[test]
    fn a_use_tells_what_a_value_can_be() {
        for (text, want) in [
            ("{{ .Values.a.b }}", Ways::FIELD),
            ("{{ range .Values.a }}{{ end }}", Ways::RANGE.or(Ways::ITEMS)),
            ("{{ if .Values.a }}{{ end }}", Ways::TESTED),
            ("{{ .Values.a | default 1 | quote }}", Ways::TESTED.or(Ways::QUOTED)),
            ("{{ kindIs \"map\" .Values.a }}", Ways::TYPE_ASKED),
            ("{{ printf \"%T\" .Values.a }}", Ways::TYPE_ASKED),
            ("{{ printf \"%s-x\" .Values.a }}", Ways::COMPARED),
            ("{{ tpl .Values.a . }}", Ways::TPL),
            ("{{ tpl (toYaml .Values.a) . }}", Ways::TPL_YAML.or(Ways::YAML)),
            ("{{ .Values.a | trunc 63 }}", Ways::STRING),
            ("{{ mustHas 1 .Values.a }}", Ways::LIST),
            ("{{ join \",\" (list .Values.a) }}", Ways::NONE),
            ("{{ first (list .Values.a) | int }}", Ways::NUMBER),
            ("{{ keys .Values.a }}", Ways::TABLE.or(Ways::KEYS)),
            ("{{ with .Values.a }}{{ toYaml . }}{{ end }}", Ways::TESTED.or(Ways::YAML)),
            ("{{ define \"t\" }}{{ int .x }}{{ end }}{{ include \"t\" (dict \"x\" .Values.a) }}", Ways::NUMBER),
        ] {
            let got = ways(text).0;
            assert!(got == want || got == want.or(Ways::TOUCHED), "{text}: {got:?}, not {want:?}");
        }
    }

    #[test]
    fn a_position_is_the_key_in_front() {
        for (text, written, printed) in [
            ("a:\n  resources:\n    {{- toYaml .Values.a | nindent 4 }}\n", vec!["resources"], vec![]),
            ("replicas: {{ .Values.a }}\n", vec![], vec!["replicas"]),
            ("image: \"{{ .Values.a }}\"", vec![], vec!["image"]),
            ("image: \"x:{{ .Values.a }}\"", vec![], vec!["-"]),
            ("{{ with .Values.a }}args: {{ toYaml . }}{{ end }}", vec!["args"], vec![]),
        ] {
            let (_, got_written, got_printed) = ways(text);
            assert_eq!(
                (got_written, got_printed),
                (
                    written.iter().map(ToString::to_string).collect(),
                    printed.iter().map(ToString::to_string).collect::<Vec<_>>()
                ),
                "{text}"
            );
        }
    }

    #[test]
    fn a_subchart_has_its_values_at_its_key_and_shares_the_global_ones() {
        let mut set = TemplateSet::new(functions::table());
        set.parse("c/charts/d/templates/a.yaml", "{{ .Values.a }}{{ .Values.global.b }}").unwrap();
        let usage = set.usage(&[("c/charts/d/templates/a.yaml", vec!["d".into()])], &[]);
        let whole: Vec<String> = usage.whole.iter().map(|path| path.join(".")).collect();
        assert_eq!(whole, ["d.a", "global.b"]);
    }
}
