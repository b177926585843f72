//! What a new record needs besides what it says: a time and ids.

use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

/// The moment of writing, and a source of ids. Both come from outside, so that the
/// same ones give the same bytes.
#[derive(Clone, Debug)]
pub struct Stamp {
    now_ms: u64,
    state: [u64; 2],
}

impl Stamp {
    /// `now_ms` is in milliseconds since 1970; `seed` is 16 random bytes.
    pub fn new(now_ms: u64, seed: [u8; 16]) -> Self {
        let half = |at: usize| {
            let mut bytes = [0; 8];
            bytes.copy_from_slice(&seed[at..at + 8]);
            u64::from_le_bytes(bytes)
        };
        Self {
            now_ms,
            state: [half(0), half(8)],
        }
    }

    /// Milliseconds since 1970.
    pub fn now_ms(&self) -> u64 {
        self.now_ms
    }

    /// The moment as programs write it, `2026-12-07T10:00:00.000Z`.
    pub fn timestamp(&self) -> String {
        rfc3339(self.now_ms)
    }

    /// Random bits that are not secret (SplitMix64, over both halves of the seed).
    pub fn bits(&mut self) -> u64 {
        let mut mixed = 0;
        for half in &mut self.state {
            *half = half.wrapping_add(0x9E37_79B9_7F4A_7C15);
            let mut z = *half;
            z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
            z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
            mixed ^= (z ^ (z >> 31)).rotate_left(32);
            mixed = mixed.rotate_left(17);
        }
        mixed
    }

    /// A random UUID.
    pub fn uuid(&mut self) -> String {
        let (a, b) = (self.bits(), self.bits());
        let (a, b) = (
            a & 0xFFFF_FFFF_FFFF_0FFF | 0x4000,
            b & 0x3FFF_FFFF_FFFF_FFFF | 0x8000_0000_0000_0000,
        );
        format!(
            "{:08x}-{:04x}-{:04x}-{:04x}-{:012x}",
            a >> 32,
            (a >> 16) & 0xFFFF,
            a & 0xFFFF,
            b >> 48,
            b & 0xFFFF_FFFF_FFFF
        )
    }
}

/// A moment in milliseconds since 1970 as programs write it.
pub fn rfc3339(ms: u64) -> String {
    let moment = OffsetDateTime::from_unix_timestamp_nanos(i128::from(ms) * 1_000_000);
    let Ok(moment) = moment else {
        return "1970-01-01T00:00:00.000Z".into();
    };
    let (date, time) = (moment.date(), moment.time());
    format!(
        "{:04}-{:02}-{:02}T{:02}:{:02}:{:02}.{:03}Z",
        date.year(),
        u8::from(date.month()),
        date.day(),
        time.hour(),
        time.minute(),
        time.second(),
        time.millisecond()
    )
}

/// A moment that a program wrote, in milliseconds since 1970.
pub fn parse_time(text: &str) -> Option<u64> {
    let time = OffsetDateTime::parse(text, &Rfc3339).ok()?;
    u64::try_from(time.unix_timestamp_nanos() / 1_000_000).ok()
}
