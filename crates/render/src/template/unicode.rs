//! Classes of characters as in Go's `unicode`, by general category. Rust's methods use other properties: for them a Roman numeral is
//! alphabetic and numeric, and in Go it is neither a letter nor a digit.

use unicode_general_category::{GeneralCategory as Category, get_general_category};

/// Go's `unicode.IsLetter`.
pub fn is_letter(c: char) -> bool {
    use Category::{LowercaseLetter, ModifierLetter, OtherLetter, TitlecaseLetter, UppercaseLetter};
    if c.is_ascii() {
        return c.is_ascii_alphabetic();
    }
    matches!(
        get_general_category(c),
        UppercaseLetter | LowercaseLetter | TitlecaseLetter | ModifierLetter | OtherLetter
    )
}

/// Go's `unicode.IsDigit`.
pub fn is_digit(c: char) -> bool {
    if c.is_ascii() { c.is_ascii_digit() } else { get_general_category(c) == Category::DecimalNumber }
}
