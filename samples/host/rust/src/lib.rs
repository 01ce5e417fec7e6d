//! What the programs of this folder share: the text, batches of it, the line of losses.

use std::error::Error;
use std::path::Path;
use std::{fmt, fs};

use plait::{Batch, BatchSpec, Config};

/// What ends a program: an error of the library, of a file, or of what was asked.
pub type Outcome<T> = Result<T, Box<dyn Error>>;

/// A file whose bytes are the tokens, held in memory.
pub struct Text {
    tokens: Vec<i32>,
}

impl Text {
    /// Reads the whole file.
    pub fn read(path: &Path) -> Outcome<Text> {
        let bytes = fs::read(path).map_err(|error| cannot_read(path, &error))?;
        Ok(Text {
            tokens: bytes.into_iter().map(i32::from).collect(),
        })
    }

    /// Fills the batch's own memory for the next step: sequence j of the run begins at byte j·s, round
    /// and round.
    pub fn fill(&self, batch: &mut Batch, spec: &BatchSpec) -> Outcome<()> {
        let (length, count) = (spec.sequence_length as usize, self.tokens.len());
        if count < length + 1 {
            return Err(format!("the text holds fewer than {} bytes", length + 1).into());
        }
        let rows = batch.map("tokens", spec.global_rows, spec.sequence_length + 1)?;
        for (row, sample) in rows
            .chunks_exact_mut(length + 1)
            .zip(spec.first_sample as usize..)
        {
            let first = sample * length % (count - length);
            row.copy_from_slice(&self.tokens[first..=first + length]);
        }
        Ok(())
    }
}

/// Loads a file of JSON into a configuration.
pub fn load(config: &mut Config, path: &Path) -> Outcome<()> {
    let json = fs::read_to_string(path).map_err(|error| cannot_read(path, &error))?;
    Ok(config.load(&json)?)
}

/// The value of a key that is a number.
pub fn number(config: &Config, key: &str) -> Outcome<i64> {
    let value = config.get(key)?;
    value
        .parse()
        .map_err(|_| format!("{key} is no number: \"{value}\"").into())
}

fn cannot_read(path: &Path, error: &dyn fmt::Display) -> String {
    format!("cannot read {}: {error}", path.display())
}

/// The losses as C's `%.17g` prints them, separated by spaces.
pub fn line(losses: &[f64]) -> String {
    losses
        .iter()
        .map(|loss| general(*loss))
        .collect::<Vec<_>>()
        .join(" ")
}

/// A number as C's `%.17g` prints it: 17 significant digits, without zeros at the end; plain where the
/// exponent is −4 … 16.
pub fn general(value: f64) -> String {
    if !value.is_finite() {
        return value.to_string().to_lowercase();
    }
    let scientific = format!("{value:.16e}");
    let (digits, exponent) = scientific
        .split_once('e')
        .expect("a number in scientific form");
    let exponent: i32 = exponent.parse().expect("a whole exponent");
    let sign = if digits.starts_with('-') { "-" } else { "" };
    let digits: String = digits.chars().filter(char::is_ascii_digit).collect();
    let with_fraction = |whole: &str, fraction: &str| {
        let number = format!("{sign}{whole}.{fraction}");
        number
            .trim_end_matches('0')
            .trim_end_matches('.')
            .to_string()
    };
    match exponent {
        0..=16 => {
            let (whole, fraction) = digits.split_at(exponent as usize + 1);
            with_fraction(whole, fraction)
        }
        -4..=-1 => with_fraction("0", &("0".repeat(-exponent as usize - 1) + &digits)),
        _ => {
            let exponent_sign = if exponent < 0 { '-' } else { '+' };
            let mantissa = with_fraction(&digits[..1], &digits[1..]);
            format!("{mantissa}e{exponent_sign}{:02}", exponent.abs())
        }
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::CStr;
    use std::os::raw::{c_char, c_int};

    use super::general;

    extern "C" {
        fn snprintf(text: *mut c_char, bytes: usize, format: *const c_char, ...) -> c_int;
    }

    fn by_c(value: f64) -> String {
        let mut text = [0; 64];
        // SAFETY: room for every number that the format can print, and its one argument.
        unsafe {
            snprintf(
                text.as_mut_ptr(),
                text.len(),
                b"%.17g\0".as_ptr().cast(),
                value,
            );
            CStr::from_ptr(text.as_ptr()).to_str().unwrap().to_string()
        }
    }

    #[test]
    fn numbers_print_as_c_prints_them() {
        let mut values = vec![
            0.0,
            1.0,
            10.0,
            5.545177444479562,
            0.1,
            0.0001,
            0.00001,
            12.5,
            1e16,
        ];
        values.extend([
            1e17,
            123456789012345678.0,
            1e-300,
            5e-324,
            f64::MAX,
            99999.99999999999,
        ]);
        values.extend([
            f64::INFINITY,
            f64::from(1.1f32),
            f64::from(11.7f32),
            0.3 - 0.1,
        ]);
        // Every exponent, with mantissas that a generator of its own makes.
        let mut state = 1u64;
        for exponent in 1..2047u64 {
            state = state
                .wrapping_mul(6364136223846793005)
                .wrapping_add(1442695040888963407);
            values.push(f64::from_bits(exponent << 52 | state >> 12));
        }
        for value in values {
            assert_eq!(general(value), by_c(value));
            assert_eq!(general(-value), by_c(-value));
        }
    }
}
