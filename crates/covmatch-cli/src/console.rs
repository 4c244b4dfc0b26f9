//! Where text goes: results to stdout, everything else to stderr.

use std::io::{BufRead, ErrorKind, Write};

use anyhow::Context;

/// Writes a command's result to stdout. A reader that closed the pipe (`| head`) is no error.
pub fn result(text: &str) -> anyhow::Result<()> {
    let mut stdout = std::io::stdout().lock();
    match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => Err(error).context("cannot write to stdout"),
        _ => Ok(()),
    }
}

/// Writes an `answer` to stdout for every line on stdin, until that ends.
pub fn serve(mut answer: impl FnMut() -> anyhow::Result<String>) -> anyhow::Result<()> {
    for line in std::io::stdin().lock().lines() {
        line.context("cannot read from stdin")?;
        result(&answer()?)?;
    }
    Ok(())
}

/// Tells on stderr what is going on.
pub fn progress(text: &str) {
    // Progress that nobody can read is not worth failing for.
    let _ = writeln!(std::io::stderr(), "{text}");
}

/// Writes an error and its causes to stderr.
pub fn error(error: &anyhow::Error) {
    progress(&format!("error: {error}"));
    for cause in error.chain().skip(1) {
        progress(&format!("  because: {cause}"));
    }
}

/// Seconds in the unit that suits them.
pub fn duration(seconds: f64) -> String {
    match seconds {
        s if s < 100.0 => format!("{s:.1} s"),
        s if s < 6000.0 => format!("{:.0} min {:02.0} s", (s / 60.0).floor(), (s % 60.0).floor()),
        s => format!("{:.0} h {:02.0} min", (s / 3600.0).floor(), (s % 3600.0 / 60.0).floor()),
    }
}

/// An integer with a comma after every three digits.
pub fn grouped(number: usize) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_a_fitting_unit() {
        for (seconds, text) in [(0.04, "0.0 s"), (99.5, "99.5 s"), (125.9, "2 min 05 s"), (7261.0, "2 h 01 min")] {
            assert_eq!(duration(seconds), text);
        }
    }

    #[test]
    fn digits_are_grouped_by_three() {
        for (number, text) in [(0, "0"), (999, "999"), (1000, "1,000"), (32_769_488, "32,769,488")] {
            assert_eq!(grouped(number), text);
        }
    }
}
