//! Numbers as people read them: grouped by thousands, no more digits than they deserve.

/// Groups digits on a terminal, where it can be copied and searched for.
pub const SPACE: char = ' ';
/// Groups digits where a line must not break inside a number.
pub const NARROW_SPACE: char = '\u{202f}';

/// `value` with exactly `digits` digits after the point and its thousands apart.
pub fn fixed(value: f64, digits: usize, separator: char) -> String {
    if value.is_nan() {
        return "—".to_owned();
    }
    if value.is_infinite() {
        return if value > 0.0 { "∞" } else { "-∞" }.to_owned();
    }
    // Nobody reads a hundred digits: beyond this the exponent says more.
    if value.abs() >= 1e15 {
        return format!("{value:.2e}");
    }
    let plain = format!("{:.*}", digits.min(12), value.abs());
    let (whole, fraction) = plain.split_once('.').unwrap_or((&plain, ""));
    let is_zero = plain.bytes().all(|byte| matches!(byte, b'0' | b'.'));
    let mut text = String::with_capacity(plain.len() + plain.len() / 3 + 1);
    if value < 0.0 && !is_zero {
        text.push('-');
    }
    for (index, digit) in whole.chars().enumerate() {
        if index > 0 && (whole.len() - index).is_multiple_of(3) {
            text.push(separator);
        }
        text.push(digit);
    }
    if !fraction.is_empty() {
        text.push('.');
        text.push_str(fraction);
    }
    text
}

/// `value` with about three significant digits.
pub fn short(value: f64, separator: char) -> String {
    let size = value.abs();
    if size != 0.0 && size < 0.000_5 {
        return format!("{value:.2e}");
    }
    fixed(value, short_digits(value), separator)
}

/// How many digits after the point leave about three significant ones.
pub fn short_digits(value: f64) -> usize {
    let size = value.abs();
    if value.fract() == 0.0 || !value.is_finite() || size >= 100.0 {
        0
    } else if size >= 10.0 {
        1
    } else if size >= 1.0 {
        2
    } else if size >= 0.1 {
        3
    } else {
        4
    }
}

/// Text with its control characters replaced: they would break a page, or drive a terminal.
pub fn printable(text: &str) -> String {
    text.chars()
        .map(|c| {
            if c == '\n' || c == '\t' {
                ' '
            } else if c.is_control() {
                char::REPLACEMENT_CHARACTER
            } else {
                c
            }
        })
        .collect()
}

/// `value` as a power of ten, with its factor if that is not 1: `10⁹`, `2×10⁻⁶`.
pub fn exponent(value: f64) -> String {
    let text = format!("{value:e}");
    let Some((factor, exponent)) = text.split_once('e') else {
        return text;
    };
    let raised: String = exponent.chars().map(superscript).collect();
    match factor {
        "1" => format!("10{raised}"),
        "-1" => format!("-10{raised}"),
        _ => format!("{}×10{raised}", factor.get(..4).unwrap_or(factor)),
    }
}

/// The raised form of a digit or minus sign.
pub fn superscript(c: char) -> char {
    match c {
        '0' => '⁰',
        '1' => '¹',
        '2' => '²',
        '3' => '³',
        '4'..='9' => char::from_u32('⁴' as u32 + (c as u32 - '4' as u32)).unwrap_or(c),
        '-' => '⁻',
        _ => c,
    }
}

#[cfg(test)]
mod tests;
