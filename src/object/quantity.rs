//! Quantities of Kubernetes, as far as they are sizes of volumes (`resource.Quantity` of k8s.io/apimachinery).

/// The units, with the longer ones first.
const UNITS: [(&str, f64); 12] = [
    ("Ki", 1024.0),
    ("Mi", 1_048_576.0),
    ("Gi", 1_073_741_824.0),
    ("Ti", 1_099_511_627_776.0),
    ("Pi", 1_125_899_906_842_624.0),
    ("m", 1e-3),
    ("k", 1e3),
    ("M", 1e6),
    ("G", 1e9),
    ("T", 1e12),
    ("P", 1e15),
    ("", 1.0),
];

/// The number of bytes of a quantity such as `8Gi`, `1.5G` or `1e9`, rounded up. `None` if it is not one.
pub fn bytes(text: &str) -> Option<u64> {
    let (number, unit) = UNITS.iter().find_map(|(unit, factor)| Some((text.strip_suffix(unit)?, factor)))?;
    let is_plain = number.bytes().all(|byte| byte.is_ascii_digit() || matches!(byte, b'.' | b'e' | b'E' | b'+'));
    let bytes = number.parse::<f64>().ok().filter(|_| is_plain)? * unit;
    // Larger numbers lose digits as an f64, and no volume has them.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it is within these bounds")]
    (0.0..9e15).contains(&bytes).then(|| bytes.ceil() as u64)
}

/// A number of bytes as a quantity: in MiB, rounded up.
pub fn mebibytes(bytes: u64) -> String {
    format!("{}Mi", bytes.div_ceil(1 << 20))
}

#[cfg(test)]
mod tests {
    use super::{bytes, mebibytes};

    #[test]
    fn sizes_are_read_as_kubernetes_reads_them() {
        for (text, expected) in [
            ("8Gi", Some(8 << 30)),
            ("1.5Gi", Some(3 << 29)),
            ("10G", Some(10_000_000_000)),
            ("1e9", Some(1_000_000_000)),
            ("1E9", Some(1_000_000_000)),
            ("1073741824", Some(1 << 30)),
            ("1500m", Some(2)),
            ("2Ti", Some(2 << 40)),
            ("0", Some(0)),
            ("-1Gi", None),
            ("inf", None),
            ("nan", None),
            ("Gi", None),
            ("", None),
            ("8 Gi", None),
            ("8gi", None),
            ("1e300", None),
        ] {
            assert_eq!(bytes(text), expected, "{text}");
        }
        assert_eq!((mebibytes(1 << 30), mebibytes(1)), ("1024Mi".to_owned(), "1Mi".to_owned()));
    }
}
