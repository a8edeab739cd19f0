//! Tests of how numbers are written.

use super::{exponent, fixed, printable, short};

#[test]
fn thousands_are_grouped_and_digits_kept() {
    assert_eq!(fixed(0.0, 0, ' '), "0");
    assert_eq!(fixed(999.0, 0, ' '), "999");
    assert_eq!(fixed(1_000.0, 0, ' '), "1 000");
    assert_eq!(fixed(478_228.25, 1, ' '), "478 228.2");
    assert_eq!(fixed(-1_234_567.891, 2, ' '), "-1 234 567.89");
    assert_eq!(
        fixed(999_999.6, 0, ' '),
        "1 000 000",
        "rounding may add a group"
    );
}

#[test]
fn zero_has_no_sign() {
    assert_eq!(fixed(-0.0, 1, ' '), "0.0");
    assert_eq!(fixed(-0.04, 1, ' '), "0.0");
    assert_eq!(fixed(-0.06, 1, ' '), "-0.1");
}

#[test]
fn what_is_no_number_is_said_plainly() {
    assert_eq!(fixed(f64::NAN, 2, ' '), "—");
    assert_eq!(fixed(f64::INFINITY, 2, ' '), "∞");
    assert_eq!(fixed(f64::NEG_INFINITY, 2, ' '), "-∞");
    assert_eq!(fixed(f64::MAX, 3, ' '), "1.80e308");
}

#[test]
fn short_numbers_keep_three_digits() {
    let cases = [
        (12.0, "12"),
        (0.25, "0.250"),
        (1.0 / 3.0, "0.333"),
        (4.63, "4.63"),
    ];
    for (value, text) in cases {
        assert_eq!(short(value, ' '), text);
    }
    assert_eq!(short(45.48, ' '), "45.5");
    assert_eq!(short(445_159.4, ' '), "445 159");
    assert_eq!(short(0.000_01, ' '), "1.00e-5", "never rounded to nothing");
    assert_eq!(short(f64::NAN, ' '), "—");
}

#[test]
fn exponents_are_raised() {
    assert_eq!(exponent(1e9), "10⁹");
    assert_eq!(exponent(2e-6), "2×10⁻⁶");
    assert_eq!(exponent(2.5e12), "2.5×10¹²");
    assert_eq!(exponent(-1e45), "-10⁴⁵");
}

#[test]
fn control_characters_do_not_get_through() {
    assert_eq!(printable("a\nb\tc\x1b[0m\0"), "a b c\u{fffd}[0m\u{fffd}");
}
