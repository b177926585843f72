//! The configuration, checked, with its defaults filled in.

use crate::compact::{
    Config, ConfigError, HookSet, Policy, PruneConfig, SummarizationInput, UsageAnchor,
};
use crate::estimate::Pricing;
use crate::prune::Limits;
use crate::types::Route;

const CONTEXT_WINDOW: u32 = 128_000;
const THRESHOLD_RATIO: f64 = 0.8;
/// The default retention, and its share of a window too small for it.
const RETAIN_TOKENS: u32 = 20_480;
const RETAIN_RATIO: f64 = 0.16;
const SUMMARY_MAX_TOKENS: u32 = 2048;
const COMPACTION_RETRIES: u32 = 1;
const SUMMARY_RETRIES: u32 = 1;
const CHARS_PER_TOKEN: f64 = 4.0;
const IMAGE_TOKENS: u32 = 85;
const PRUNE_THRESHOLD_CHARS: u32 = 8192;
const PRUNE_HEAD_CHARS: u32 = 4096;
const PRUNE_TAIL_CHARS: u32 = 1024;

/// A configuration that can be used.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    config: Config,
}

/// How much to keep.
#[derive(Clone, Copy, Debug)]
enum Retention {
    Default,
    Tokens(u32),
    Ratio(f64),
}

/// The settings for one model.
#[derive(Clone, Debug)]
pub(crate) struct EffectivePolicy {
    threshold_ratio: f64,
    threshold_tokens: Option<u32>,
    retention: Retention,
    pub summarization_route: Option<Route>,
    pub summarization_max_tokens: u32,
    pub compaction_retries: u32,
    pub summary_retries: u32,
}

/// What a window allows, in tokens.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Budgets {
    pub window: u32,
    pub threshold: u32,
    pub retain: u32,
}

impl Settings {
    pub fn new(config: Config) -> Result<Self, ConfigError> {
        at_least_one("context-window", config.context_window)?;
        if let Some(ratio) = config.chars_per_token
            && !(ratio.is_finite() && ratio > 0.0)
        {
            return fault("chars-per-token", "it must be above 0");
        }
        if let Some(prune) = config.prune {
            at_least_one("prune.threshold-chars", prune.threshold_chars)?;
            if !prune_limits(prune).fit() {
                let message = "head, marker and tail together exceed threshold-chars";
                return fault("prune.head-chars", message);
            }
        }
        check_policy("policy", &config.policy)?;
        check_ratios("policy", &EffectivePolicy::of(&[&config.policy]))?;
        for (index, model) in config.model_policies.iter().enumerate() {
            let key = format!("model-policies[{index}]");
            if model.route.provider.is_empty() || model.route.model.is_empty() {
                let message = "a model policy needs both a provider and a model";
                return fault(&format!("{key}.route"), message);
            }
            let earlier = &config.model_policies[..index];
            if earlier.iter().any(|other| other.route == model.route) {
                let Route { provider, model } = &model.route;
                let message = format!("{provider}/{model} has a policy already");
                return fault(&format!("{key}.route"), message);
            }
            let key = format!("{key}.policy");
            check_policy(&key, &model.policy)?;
            check_ratios(&key, &EffectivePolicy::of(&[&model.policy, &config.policy]))?;
        }
        Ok(Self { config })
    }

    pub fn pricing(&self) -> Pricing {
        Pricing {
            chars_per_token: self.config.chars_per_token.unwrap_or(CHARS_PER_TOKEN),
            script_aware: self.config.script_aware.unwrap_or(true),
            image_tokens: self.config.image_tokens.unwrap_or(IMAGE_TOKENS),
        }
    }

    /// The window of a model of which nothing is known.
    pub fn fallback_window(&self) -> u32 {
        self.config.context_window.unwrap_or(CONTEXT_WINDOW)
    }

    pub fn instructions(&self) -> Option<&str> {
        self.config.instructions.as_deref()
    }

    pub fn usage_anchor(&self) -> UsageAnchor {
        self.config.usage_anchor.unwrap_or(UsageAnchor::Calibrated)
    }

    pub fn summarization_input(&self) -> SummarizationInput {
        let input = self.config.summarization_input;
        input.unwrap_or(SummarizationInput::Auto)
    }

    pub fn protect_in_flight_turn(&self) -> bool {
        self.config.protect_in_flight_turn.unwrap_or(false)
    }

    /// Whether compaction prunes first.
    pub fn prunes_first(&self) -> bool {
        self.config.prune.is_some()
    }

    pub fn prune_limits(&self) -> Limits {
        prune_limits(self.config.prune.unwrap_or_default())
    }

    pub fn hooks(&self) -> HookSet {
        self.config.hooks
    }

    /// The settings for a model, its own before the default ones.
    pub fn policy_for(&self, route: Option<&Route>) -> EffectivePolicy {
        let own = route.and_then(|route| {
            let mut policies = self.config.model_policies.iter();
            policies.find(|model| model.route == *route)
        });
        match own {
            Some(own) => EffectivePolicy::of(&[&own.policy, &self.config.policy]),
            None => EffectivePolicy::of(&[&self.config.policy]),
        }
    }
}

impl EffectivePolicy {
    /// The first value that any of `layers` has for each setting. Retention is
    /// one setting: tokens in an earlier layer displace a ratio in a later one.
    fn of(layers: &[&Policy]) -> Self {
        fn first<T>(layers: &[&Policy], get: impl Fn(&Policy) -> Option<T>) -> Option<T> {
            layers.iter().find_map(|policy| get(policy))
        }
        let retention = first(layers, |policy| {
            let tokens = policy.retain_tokens.map(Retention::Tokens);
            tokens.or(policy.retain_ratio.map(Retention::Ratio))
        });
        Self {
            threshold_ratio: first(layers, |policy| policy.threshold_ratio)
                .unwrap_or(THRESHOLD_RATIO),
            threshold_tokens: first(layers, |policy| policy.threshold_tokens),
            retention: retention.unwrap_or(Retention::Default),
            // An empty model stands for the session's own.
            summarization_route: first(layers, |policy| policy.summarization_route.clone())
                .filter(|route| !route.model.is_empty()),
            summarization_max_tokens: first(layers, |policy| policy.summarization_max_tokens)
                .unwrap_or(SUMMARY_MAX_TOKENS),
            compaction_retries: first(layers, |policy| policy.compaction_retries)
                .unwrap_or(COMPACTION_RETRIES),
            summary_retries: first(layers, |policy| policy.summary_retries)
                .unwrap_or(SUMMARY_RETRIES),
        }
    }

    /// What a window allows when `output` tokens of it are for the answer.
    pub fn budgets(&self, window: u32, output: u32) -> Result<Budgets, ConfigError> {
        if window == 0 {
            return fault("context-window", "a window of 0 tokens holds nothing");
        }
        let share = |ratio: f64| (f64::from(window) * ratio).floor() as u32;
        let threshold = share(self.threshold_ratio)
            .min(self.threshold_tokens.unwrap_or(u32::MAX))
            .min(window.saturating_sub(output))
            .max(1);
        let retain = match self.retention {
            Retention::Tokens(tokens) => tokens,
            Retention::Ratio(ratio) => share(ratio),
            Retention::Default => {
                let usual = if window < CONTEXT_WINDOW {
                    share(RETAIN_RATIO)
                } else {
                    RETAIN_TOKENS
                };
                // Nobody chose this figure: make it fit instead of refusing it.
                usual.max(1).min(threshold.div_ceil(2))
            }
        };
        Ok(Budgets {
            window,
            threshold,
            retain,
        })
    }

    /// A retention that leaves nothing to compact is an error, if somebody chose it.
    pub fn check_retention(&self, budgets: Budgets) -> Result<(), ConfigError> {
        let key = match self.retention {
            Retention::Default => return Ok(()),
            Retention::Tokens(_) => "policy.retain-tokens",
            Retention::Ratio(_) => "policy.retain-ratio",
        };
        let Budgets {
            retain, threshold, ..
        } = budgets;
        if retain < threshold {
            return Ok(());
        }
        let message = format!("{retain} tokens to keep are not below the threshold of {threshold}");
        fault(key, message)
    }
}

// Ratios are never printed: formatting floats would add a tenth to the component.
fn fault<T>(key: &str, message: impl Into<String>) -> Result<T, ConfigError> {
    Err(ConfigError {
        key: key.into(),
        message: message.into(),
    })
}

fn at_least_one(key: &str, value: Option<u32>) -> Result<(), ConfigError> {
    match value {
        Some(0) => fault(key, "it must be at least 1"),
        _ => Ok(()),
    }
}

fn check_policy(key: &str, policy: &Policy) -> Result<(), ConfigError> {
    for (name, ratio) in [
        ("threshold-ratio", policy.threshold_ratio),
        ("retain-ratio", policy.retain_ratio),
    ] {
        if let Some(ratio) = ratio
            && !(ratio > 0.0 && ratio <= 1.0)
        {
            return fault(&format!("{key}.{name}"), "it must be above 0 and at most 1");
        }
    }
    if policy.retain_tokens.is_some() && policy.retain_ratio.is_some() {
        let message = "excludes retain-tokens, but both are set";
        return fault(&format!("{key}.retain-ratio"), message);
    }
    if let Some(route) = &policy.summarization_route
        && route.model.is_empty()
        && !route.provider.is_empty()
    {
        let message = "names a provider but no model";
        return fault(&format!("{key}.summarization-route"), message);
    }
    at_least_one(&format!("{key}.threshold-tokens"), policy.threshold_tokens)?;
    at_least_one(
        &format!("{key}.summarization-max-tokens"),
        policy.summarization_max_tokens,
    )
}

fn prune_limits(config: PruneConfig) -> Limits {
    Limits {
        threshold: config.threshold_chars.unwrap_or(PRUNE_THRESHOLD_CHARS) as usize,
        head: config.head_chars.unwrap_or(PRUNE_HEAD_CHARS) as usize,
        tail: config.tail_chars.unwrap_or(PRUNE_TAIL_CHARS) as usize,
    }
}

fn check_ratios(key: &str, policy: &EffectivePolicy) -> Result<(), ConfigError> {
    match policy.retention {
        Retention::Ratio(retain) if retain >= policy.threshold_ratio => fault(
            &format!("{key}.retain-ratio"),
            "it must be below the threshold-ratio",
        ),
        _ => Ok(()),
    }
}
