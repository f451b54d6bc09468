//! Units as others write them, and which of ours each means.

use crate::text::Unit;

/// Suffixes and whole names that stand for others, longest first: the spelling, and its meaning.
const SPELLINGS: &[(&str, &str)] = &[
    ("bytes per second", "B/s"),
    ("bits per second", "bit/s"),
    ("bits/s", "bit/s"),
    ("bytes/s", "B/s"),
    ("byte/s", "B/s"),
    ("bit/sec", "bit/s"),
    ("b/sec", "b/s"),
    ("B/sec", "B/s"),
    ("seconds", "s"),
    ("second", "s"),
    ("metres", "m"),
    ("meters", "m"),
    ("metre", "m"),
    ("meter", "m"),
    ("bytes", "B"),
    ("byte", "B"),
    ("bits", "bit"),
    ("secs", "s"),
    ("sec", "s"),
    ("Bps", "B/s"),
    ("bps", "bit/s"),
];

/// The unit of `units` that `name` means, if it means one: `Gbps` and `Gb/s` are `Gbit/s`, `usec` is
/// `us`, `mb` is `MB` where bytes are read. A bare prefix, as in `400G`, is that of the rate in bits.
pub(crate) fn meant(name: &str, units: &[Unit]) -> Option<&'static str> {
    let mut spelled = name.trim().to_owned();
    for (written, means) in SPELLINGS {
        if let Some(start) = spelled.strip_suffix(written) {
            spelled = format!("{start}{means}");
            break;
        }
    }
    let long = spelled.strip_suffix("b/s").map(|start| format!("{start}bit/s"));
    let prefix = matches!(name, "k" | "K" | "M" | "G" | "T").then(|| format!("{name}bit/s"));
    let bits = spelled.strip_suffix("bit").or_else(|| spelled.strip_suffix('b'));
    let short = [bits.map(|start| format!("{start}bit/s")), prefix];
    let tried = [long, Some(spelled.clone())].into_iter().chain(short).flatten();
    let mut tried = tried.filter_map(|name| unit_like(&name, units));
    tried.next()
}

/// The unit of that name, or the one that differs from it in case alone; but `b` is a bit and `B` a byte.
fn unit_like(name: &str, units: &[Unit]) -> Option<&'static str> {
    if let Some(unit) = units.iter().find(|unit| unit.name == name) {
        return Some(unit.name);
    }
    let mut alike = units.iter().filter(|unit| !unit.alias && unit.name.eq_ignore_ascii_case(name));
    let first = alike.next()?;
    alike.next().is_none().then_some(first.name)
}

#[cfg(test)]
mod tests {
    use crate::{Bytes, Rate, Span};

    fn proposed(error: &str) -> Option<&str> {
        error.split("did you mean \"").nth(1)?.split('"').next()
    }

    #[test]
    fn units_as_others_write_them() {
        let rate = |text: &str| text.parse::<Rate>().unwrap_err().to_string();
        for (written, means) in [
            ("400 Gbps", "400 Gbit/s"),
            ("400Gbps", "400 Gbit/s"),
            ("400 Gb/s", "400 Gbit/s"),
            ("400G", "400 Gbit/s"),
            ("400 Gb", "400 Gbit/s"),
            ("2 Gbits", "2 Gbit/s"),
            ("10 gbps", "10 Gbit/s"),
            ("2.5 GBps", "2.5 GB/s"),
            ("100 Mbits/s", "100 Mbit/s"),
            ("1 Tbps", "1 Tbit/s"),
            ("800 Gbit/sec", "800 Gbit/s"),
        ] {
            assert_eq!(proposed(&rate(written)), Some(means), "{written}");
            means.parse::<Rate>().unwrap();
        }
        let span = |text: &str| text.parse::<Span>().unwrap_err().to_string();
        for (written, means) in
            [("3 usec", "3 us"), ("3 seconds", "3 s"), ("7 NS", "7 ns"), ("1.5 msec", "1.5 ms")]
        {
            assert_eq!(proposed(&span(written)), Some(means), "{written}");
        }
        let size = |text: &str| text.parse::<Bytes>().unwrap_err().to_string();
        for (written, means) in
            [("64 kb", "64 KB"), ("1500 bytes", "1500 B"), ("4 gib", "4 GiB"), ("1 Mb", "1 MB")]
        {
            assert_eq!(proposed(&size(written)), Some(means), "{written}");
        }
    }

    #[test]
    fn what_is_no_unit_of_the_kind_proposes_nothing() {
        for text in ["3 furlong", "3 Hz", "3 %", "3 µB"] {
            assert_eq!(proposed(&text.parse::<Span>().unwrap_err().to_string()), None, "{text}");
        }
    }

    #[test]
    fn binary_rates_are_read() {
        let rate: Rate = "1 GiB/s".parse().unwrap();
        assert_eq!(rate, "8589934592 bit/s".parse().unwrap());
    }
}
