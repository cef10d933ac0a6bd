//! Texts near those of [`words`](crate::words), and constants of templates that are odd.

use crate::random::Random;

/// What is put into a text somewhere.
const PIECES: &[&str] = &[
    " ", "\n", "\t", "-", ".", ",", ":", "0", "1", "9", "a", "Z", "_", "/", "\\", "\"", "'", "`", "[", "]", "{", "}",
    "(", ")", "*", "+", "?", "|", "^", "$", "%", "&", "#", "!", "@", "~", "<", ">", "=", "é", "日", "\u{feff}",
    "\u{7f}", "\u{0}", "\u{85}", "\u{2028}", "🦀", "\r", "00", "e5", "0x", "x", "T", "Z", "+02:00", ": ", "- ", "&a ",
    "*a", "!!str ", "---\n", "\n  ",
];

/// What is put into a template somewhere.
const TOKENS: &[&str] = &[
    "{{",
    "}}",
    "{{-",
    "-}}",
    "(",
    ")",
    "|",
    ":=",
    "=",
    ",",
    "$",
    ".",
    "\"",
    "`",
    "'",
    " end ",
    " else ",
    "/*",
    "*/",
    " ",
    "\n",
    " nil ",
    " break ",
    " define ",
    " range ",
    " if ",
    "{{ end }}",
    "{{ else }}",
    "{{ break }}",
    "0x",
    "1",
    "a",
    ".a",
    "$x",
    "\\",
    " true",
    "{{ template \"t1\" }}",
    "{{ else if 1 }}",
    "{{ else with 1 }}",
    "é",
    "\u{0}",
    "..",
    "{{ $ := 1 }}",
    "{{/* c */}}",
    "{{ /* c */ }}",
    "{{- /* c\n */ -}}",
    "|nope ",
    ";",
    "&",
    "%",
    "{{ define \"t1\" }}",
    "{{block \"x\" .}}",
    "{{ $x }}",
    "'a'",
    "1_0",
];

fn insert(random: &mut Random, text: &str, pieces: &[&str]) -> String {
    let at = random.below(text.chars().count() + 1);
    let (before, after): (String, String) = (text.chars().take(at).collect(), text.chars().skip(at).collect());
    before + *random.pick(pieces) + &after
}

fn delete(random: &mut Random, text: &str) -> String {
    let (at, count) = (random.below(text.chars().count()), 1 + random.below(3));
    text.chars().enumerate().filter(|(i, _)| !(at..at + count).contains(i)).map(|(_, c)| c).collect()
}

fn repeat(random: &mut Random, text: &str) -> String {
    let length = text.chars().count();
    let (at, count) = (random.below(length + 1), 1 + random.below(4));
    let part: String = text.chars().skip(at).take(count).collect();
    text.chars().take(at).collect::<String>() + &part + &text.chars().skip(at).collect::<String>()
}

/// One of the words, or something near it.
pub fn word(random: &mut Random, words: &[&str]) -> String {
    let mut text = (*random.pick(words)).to_owned();
    if !random.one_in(3) {
        return text;
    }
    for _ in 0..1 + random.below(3) {
        text = match random.below(5) {
            0 => delete(random, &text),
            1 | 2 => insert(random, &text, PIECES),
            3 => {
                let other = *random.pick(words);
                let (a, b) = (random.below(text.chars().count() + 1), random.below(other.chars().count() + 1));
                text.chars().take(a).chain(other.chars().skip(b)).collect()
            }
            _ => repeat(random, &text),
        };
    }
    text
}

/// A template that may not be one any more.
pub fn template(random: &mut Random, text: &str) -> String {
    match random.below(4) {
        0 => delete(random, text),
        1 => repeat(random, text),
        _ => insert(random, text, TOKENS),
    }
}

/// A format of `printf`.
pub fn format(random: &mut Random) -> String {
    let mut out = String::new();
    for _ in 0..1 + random.below(3) {
        out += "%";
        for _ in 0..random.below(3) {
            out += *random.pick(&["#", "0", "+", "-", " "]);
        }
        out += *random.pick(&["", "", "", "3", "8", "*", "[1]", "[2]*", "[9]", "20"]);
        out += *random.pick(&["", "", "", ".0", ".2", ".*", ".", ".[1]*", ".12"]);
        out += *random.pick(&[
            "v", "s", "d", "q", "x", "X", "T", "t", "f", "e", "g", "c", "U", "b", "o", "O", "E", "G", "F", "w", "%",
            "z", "é",
        ]);
        out += *random.pick(&["", "|", " "]);
    }
    out
}

/// A number as a template may write it.
pub fn number(random: &mut Random) -> String {
    const BORDERS: &[&str] = &[
        "9223372036854775807",
        "9223372036854775808",
        "-9223372036854775808",
        "-9223372036854775809",
        "18446744073709551615",
        "18446744073709551616",
        "1e18",
        "1e19",
        "1e308",
        "1.7976931348623157e308",
        "1e309",
        "5e-324",
        "4.9e-324",
        "2.5e-324",
        "0x1p-1074",
        "0x1.fffffffffffffp1023",
        "9007199254740992",
        "9007199254740993",
        "9007199254740993.0",
        "0.1",
        "0.30000000000000004",
        "1e21",
        "1e20",
        "999999999999999999999.0",
        "123456789012345680.0",
        "1e-6",
        "1e-7",
        "0.000001",
        "123456.0",
        "1234567.0",
        "21e5",
        "-0.0",
        "0o17",
        "017",
        "08",
        "0b101",
        "0x_1f",
        "1_000_000",
        "1__0",
        "1.",
        ".5",
        "+1",
        "+.5e3",
        "-'a'",
        "'é'",
        "'\\n'",
        "'\\x41'",
        "'\\u00e9'",
        "'\\''",
        "1i",
        "2.5i",
        "1e3i",
        "0x1i",
        "2147483647",
        "2147483648",
        "-2147483649",
        "255",
        "256",
        "1e100",
        "0x8000000000000000",
        "1e-400",
        "100000000000000000000",
    ];
    match random.below(4) {
        0 => (*random.pick(BORDERS)).to_owned(),
        1 => (random.below(2000) as i64 - 1000).to_string(),
        2 => format!("{:?}", f64::from_bits(random.next()).clamp(-1e300, 1e300)).replace("NaN", "1.5"),
        _ => format!("{}.{}", random.below(1000), random.below(100_000)),
    }
}

/// A constant whose bytes are odd.
pub fn bytes(random: &mut Random) -> &'static str {
    *random.pick(&[
        r#""\xff""#,
        r#""a\xe9b""#,
        r#""\x00""#,
        r#""\xed\xa0\x80x""#,
        r#""\xf0\x9f\xa6""#,
        r#""\377\001""#,
        r#""\u00e9\U0001F600""#,
        r#""\a\b\f\v\r""#,
        r#""a\xffb,\xfe,c""#,
        r#""\xc3\xa9\xc3""#,
        r#""\ufffd""#,
        r#""\xef\xbb\xbfx""#,
        r#""x\x80y: z""#,
        r#""\U0010FFFF""#,
        r#""\u2028\u2029""#,
        "`a\n\tb`",
        "`\\x41`",
        r#""\xff\xfe\n\xfd""#,
        r#""\u00df\u0130\u0131\u01c5""#,
        r#""\"'\\""#,
    ])
}
