//! What a provider has counted, as the base of the estimate.

use crate::compact::UsageAnchor;
use crate::session::RequestHeader;
use crate::types::Usage;

/// How far a provider's count may be believed to lie from the estimate: beyond
/// that, one of the two is about something else.
const LEAST_SCALE: f64 = 0.5;
const MOST_SCALE: f64 = 4.0;

/// The newest count, under each way of using it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Anchors {
    delta: Option<DeltaAnchor>,
    counted: Option<Counted>,
}

/// The newest answer, as the reference reads it.
#[derive(Clone, Debug)]
struct DeltaAnchor {
    fingerprint: Option<String>,
    /// The surface when the answer's step began, and the answer.
    surface: u64,
    /// What the provider counted; none where it did not, or less than the estimate.
    tokens: Option<u64>,
}

/// The newest answer that came with a count.
#[derive(Clone, Debug)]
struct Counted {
    fingerprint: Option<String>,
    /// The surface with the answer: what the provider's figure is of.
    surface: u64,
    tokens: u64,
}

/// The next request, estimated.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Reckoned {
    pub total: u64,
    /// How many of the provider's tokens one estimated token stands for.
    pub scale: f64,
}

impl Anchors {
    /// The model answered. `at_step` is the surface when the step began and the
    /// answer; `surface` the whole surface with it.
    pub fn answered(
        &mut self,
        usage: Option<Usage>,
        header: Option<&RequestHeader>,
        at_step: u64,
        surface: u64,
    ) {
        let fingerprint = header.map(|header| header.fingerprint.clone());
        let tokens = usage.map(total).filter(|tokens| *tokens > 0);
        let estimate = header.map(|header| u64::from(header.overhead_tokens) + at_step);
        self.delta = Some(DeltaAnchor {
            fingerprint: fingerprint.clone(),
            surface: at_step,
            tokens: tokens.filter(|tokens| estimate.is_some_and(|estimate| *tokens >= estimate)),
        });
        if let Some(tokens) = tokens {
            self.counted = Some(Counted {
                fingerprint,
                surface,
                tokens,
            });
        }
    }

    /// The next request: the surface and `overhead` besides it, on the base of what
    /// was counted. A header that has changed since voids the base.
    pub fn reckon(
        &self,
        mode: UsageAnchor,
        header: Option<&RequestHeader>,
        surface: u64,
        overhead: u32,
    ) -> Reckoned {
        let fingerprint = header.map(|header| header.fingerprint.as_str());
        let estimated = Reckoned {
            total: surface + u64::from(overhead),
            scale: 1.0,
        };
        match mode {
            UsageAnchor::Off => estimated,
            UsageAnchor::Delta => match &self.delta {
                Some(anchor) if anchor.fingerprint.as_deref() == fingerprint => {
                    let Some(tokens) = anchor.tokens else {
                        return estimated;
                    };
                    Reckoned {
                        total: (tokens + surface).saturating_sub(anchor.surface),
                        scale: 1.0,
                    }
                }
                _ => estimated,
            },
            UsageAnchor::Calibrated => match &self.counted {
                Some(anchor) if anchor.fingerprint.as_deref() == fingerprint => {
                    let estimate = (anchor.surface + u64::from(overhead)).max(1);
                    let scale = anchor.tokens as f64 / estimate as f64;
                    let scale = scale.clamp(LEAST_SCALE, MOST_SCALE);
                    let change = (surface as f64 - anchor.surface as f64) * scale;
                    Reckoned {
                        total: (anchor.tokens as f64 + change).max(0.0).round() as u64,
                        scale,
                    }
                }
                _ => estimated,
            },
        }
    }
}

fn total(usage: Usage) -> u64 {
    let buckets = [
        usage.input_tokens,
        usage.cache_read_tokens,
        usage.cache_write_tokens,
        usage.output_tokens,
    ];
    buckets.into_iter().map(u64::from).sum()
}
