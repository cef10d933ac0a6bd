//! Decimals in texts of JSON. MySQL stores `1.10` of an expression as a decimal, and reads the text `1.10` as a double, which it shows as `1.1`.

/// How many decimals of a text are kept at most.
const MOST: usize = 10_000;
/// The most digits of a decimal.
const DIGITS: usize = 65;

/// A part of a path: a name with its quotes, or a number.
enum Leg<'a> {
    Name(&'a [u8]),
    Number(usize),
}

/// The numbers of a text that would be shown differently as doubles, each with its path. The text is one that MySQL shows.
pub fn decimals(text: &[u8]) -> Vec<(String, &str)> {
    let (mut found, mut path, mut at, mut is_name) = (Vec::new(), Vec::new(), 0, false);
    while let Some(byte) = text.get(at) {
        let start = at;
        at += 1;
        match byte {
            b'{' => {
                path.push(Leg::Name(b""));
                is_name = true;
            }
            b'[' => path.push(Leg::Number(0)),
            b'}' | b']' => drop(path.pop()),
            b',' => match path.last_mut() {
                Some(Leg::Number(number)) => *number += 1,
                _ => is_name = true,
            },
            b'"' => {
                while text.get(at).is_some_and(|byte| *byte != b'"') {
                    at += 1 + usize::from(text[at] == b'\\');
                }
                at += 1;
                if let Some(Leg::Name(name)) = path.last_mut()
                    && std::mem::take(&mut is_name)
                {
                    *name = text.get(start..at).unwrap_or_default();
                }
            }
            b'-' | b'0'..=b'9' => {
                while text.get(at).is_some_and(|byte| byte.is_ascii_digit() || b"+-.eE".contains(byte)) {
                    at += 1;
                }
                let number = std::str::from_utf8(&text[start..at]).unwrap_or_default();
                if is_decimal(number) && found.len() < MOST {
                    found.push((shown(&path), number));
                }
            }
            _ => {}
        }
    }
    found
}

fn is_decimal(number: &str) -> bool {
    let digits = number.bytes().filter(u8::is_ascii_digit).count();
    if digits == 0 || digits > DIGITS || !number.bytes().all(|byte| byte.is_ascii_digit() || b"-.".contains(&byte)) {
        return false;
    }
    if !number.contains('.') {
        return number.parse::<i64>().is_err() && number.parse::<u64>().is_err();
    }
    // Larger and smaller doubles are shown with an exponent.
    match number.parse::<f64>() {
        Ok(double) if (1e-3..1e15).contains(&double.abs()) => format!("{double:?}") != number,
        Ok(double) => double != 0.0 || number != "0.0",
        Err(_) => false,
    }
}

fn shown(path: &[Leg<'_>]) -> String {
    let legs = path.iter().map(|leg| match leg {
        Leg::Name(name) => format!(".{}", String::from_utf8_lossy(name)),
        Leg::Number(number) => format!("[{number}]"),
    });
    std::iter::once("$".to_owned()).chain(legs).collect()
}

#[cfg(test)]
mod tests {
    use super::decimals;

    #[test]
    fn decimals_are_found_with_their_paths() {
        for (text, expected) in [
            (r#"{"a": 1.10, "b": 1.1, "c": 5, "d": "2.50"}"#, vec![(r#"$."a""#, "1.10")]),
            (
                r#"[1.0, 2.00, [true, {"x\"y, {": [null, -0.000]}]]"#,
                vec![("$[1]", "2.00"), (r#"$[2][1]."x\"y, {"[1]"#, "-0.000")],
            ),
            ("1.50", vec![("$", "1.50")]),
            (
                "[18446744073709551615, 18446744073709551616, 1e300, 0.0, 0.1234567890123456789]",
                vec![("$[1]", "18446744073709551616"), ("$[4]", "0.1234567890123456789")],
            ),
            (r#"{"ä": {"b": [], "c": 1.20}, "d": 3.40}"#, vec![(r#"$."ä"."c""#, "1.20"), (r#"$."d""#, "3.40")]),
            (r#"{"a": "#, vec![]),
            (r#"]}"\"#, vec![]),
        ] {
            let found = decimals(text.as_bytes());
            let found: Vec<(&str, &str)> = found.iter().map(|(path, number)| (path.as_str(), *number)).collect();
            assert_eq!(found, expected, "{text}");
        }
    }
}
