//! Times, sizes, signs of readiness and parts, as options give them.

use std::str::FromStr;
use std::time::Duration;

use brownout_crash::Shard;
use brownout_recovery::Readiness;

/// The longest time that an option may give, so that sums and multiples of times do not overflow.
const LONGEST: Duration = Duration::from_secs(366 * 24 * 3600);

/// `500ms`, `30s`, `2m`, `1h`; a bare number is seconds.
pub fn duration(text: &str) -> Result<Duration, String> {
    let end = text
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    let factor = match unit {
        "ms" => 0.001,
        "" | "s" => 1.0,
        "m" | "min" => 60.0,
        "h" => 3600.0,
        _ => return Err(format!("`{unit}` is not a unit of time; use ms, s, m or h")),
    };
    let seconds = number.parse::<f64>().ok().map(|number| number * factor);
    match seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok()) {
        Some(time) if time > LONGEST => Err("more than a year".to_owned()),
        Some(time) if !time.is_zero() => Ok(time),
        _ => Err("not a time such as 500ms, 30s or 2m".to_owned()),
    }
}

/// `512M`, `4G`; a bare number is bytes.
pub fn size(text: &str) -> Result<u64, String> {
    let end = text
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    let shift = match unit.to_ascii_uppercase().trim_end_matches("IB") {
        "" | "B" => 0,
        "K" => 10,
        "M" => 20,
        "G" => 30,
        "T" => 40,
        _ => return Err(format!("`{unit}` is not a unit of size; use K, M, G or T")),
    };
    let bytes = number.parse::<u64>().ok();
    let bytes = bytes.and_then(|number| number.checked_mul(1 << shift));
    bytes.ok_or_else(|| "not a size such as 512M or 4G".to_owned())
}

/// A size that is not 0.
pub fn length(text: &str) -> Result<u64, String> {
    let positive = |bytes| match bytes {
        0 => Err("it must be at least 1 byte".to_owned()),
        bytes => Ok(bytes),
    };
    size(text).and_then(positive)
}

/// A number from 0 to 1.
pub fn probability(text: &str) -> Result<f64, String> {
    let number = text.parse::<f64>().ok();
    let number = number.filter(|number| (0.0..=1.0).contains(number));
    number.ok_or_else(|| "not a probability from 0 to 1".to_owned())
}

/// Parses a sign such as `tcp:6379`.
pub fn readiness(text: &str) -> Result<Readiness, String> {
    let unknown = || "give tcp:PORT, unix:PATH, file:PATH or output:TEXT".to_owned();
    let (kind, rest) = text.split_once(':').ok_or_else(unknown)?;
    Ok(match kind {
        "tcp" => Readiness::Tcp(rest.parse().map_err(|_| "not a port".to_owned())?),
        "unix" => Readiness::Unix(rest.into()),
        "file" => Readiness::File(rest.into()),
        "output" if !rest.is_empty() => Readiness::Output(rest.to_owned()),
        _ => return Err(unknown()),
    })
}

pub fn shard(text: &str) -> Result<Shard, String> {
    let parts = text.split_once('/');
    let numbers = parts.and_then(|(index, count)| {
        let index = u32::from_str(index).ok()?;
        let count = u32::from_str(count).ok()?;
        Some(Shard { index, count })
    });
    match numbers {
        Some(shard) if (1..=shard.count).contains(&shard.index) => Ok(shard),
        _ => Err("not a part such as 2/8; parts are numbered from 1".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_units() {
        assert_eq!(duration("500ms").unwrap(), Duration::from_millis(500));
        assert_eq!(duration("2").unwrap(), Duration::from_secs(2));
        assert_eq!(duration("1.5m").unwrap(), Duration::from_secs(90));
        for wrong in ["", "x", "5y", "-1s", "0", "1e9h", "9999999999999999999999h"] {
            assert!(duration(wrong).is_err(), "{wrong}");
        }
        assert_eq!(duration("8784h").unwrap(), LONGEST);
        for long in ["8785h", "10000000000000000000"] {
            assert_eq!(duration(long).unwrap_err(), "more than a year");
        }
    }

    #[test]
    fn sizes_have_units() {
        assert_eq!(size("4G").unwrap(), 4 << 30);
        assert_eq!(size("512MiB").unwrap(), 512 << 20);
        assert_eq!(size("7").unwrap(), 7);
        for wrong in ["", "G", "1.5G", "99999999999999T", "3X"] {
            assert!(size(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn shards_are_numbered_from_one() {
        assert_eq!(shard("2/8").unwrap(), Shard { index: 2, count: 8 });
        for wrong in ["0/8", "9/8", "1", "1/0", "a/b", "1/2/3"] {
            assert!(shard(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_sign_of_readiness_names_its_kind() {
        assert_eq!(readiness("tcp:80").unwrap(), Readiness::Tcp(80));
        let text = readiness("output:now: ready").unwrap();
        assert_eq!(text, Readiness::Output("now: ready".into()));
        for wrong in ["", "80", "tcp:x", "tcp:70000", "output:", "pipe:x"] {
            assert!(readiness(wrong).is_err(), "{wrong}");
        }
    }
}
