//! A configuration as JSON, in camelCase.

use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use crate::types::{
    Config, ConfigError, ModelPolicy, Policy, PruneConfig, Route, SummarizationInput, UsageAnchor,
};

/// Read a configuration from JSON: an object with the settings of [`Config`] and
/// of its [`Policy`] side by side, in camelCase.
///
/// A summarisation route is `summarizationProvider` and `summarizationModel`,
/// which go together. `modelPolicies` is a list of objects with `provider`,
/// `model` and what differs for it. Every setting may be left out. The error
/// names the key at fault, as it stands in the JSON; an unknown one is at fault.
/// Values are checked further when a compactor is made.
///
/// ```
/// use harness_compact_host::config_from_json;
///
/// let config = config_from_json(r#"{"contextWindow": 64000, "retainTokens": 8000}"#).unwrap();
/// assert_eq!(config.policy.retain_tokens, Some(8000));
/// let error = config_from_json(r#"{"retainToken": 8000}"#).unwrap_err();
/// assert_eq!(error.key, "retainToken");
/// ```
pub fn config_from_json(json: &str) -> Result<Config, ConfigError> {
    let value = serde_json::from_str(json);
    let value = value.map_err(|error| fault("", format!("it is not JSON: {error}")))?;
    let mut fields = Fields::of("", value)?;
    let mut model_policies = Vec::new();
    let entries: Vec<Value> = fields.take("modelPolicies")?.unwrap_or_default();
    for (index, entry) in entries.into_iter().enumerate() {
        let mut entry = Fields::of(&format!("modelPolicies[{index}]."), entry)?;
        let route = Route {
            provider: entry.take("provider")?.unwrap_or_default(),
            model: entry.take("model")?.unwrap_or_default(),
        };
        let policy = entry.take_policy()?;
        entry.finish()?;
        model_policies.push(ModelPolicy { route, policy });
    }
    let prune = match fields.take("prune")? {
        None => None,
        Some(value) => {
            let mut prune = Fields::of("prune.", value)?;
            let config = PruneConfig {
                threshold_chars: prune.take("thresholdChars")?,
                head_chars: prune.take("headChars")?,
                tail_chars: prune.take("tailChars")?,
            };
            prune.finish()?;
            Some(config)
        }
    };
    let config = Config {
        context_window: fields.take("contextWindow")?,
        policy: fields.take_policy()?,
        model_policies,
        chars_per_token: fields.take("charsPerToken")?,
        script_aware: fields.take("scriptAware")?,
        usage_anchor: fields.take_one_of(
            "usageAnchor",
            &[
                ("off", UsageAnchor::Off),
                ("delta", UsageAnchor::Delta),
                ("calibrated", UsageAnchor::Calibrated),
            ],
        )?,
        image_tokens: fields.take("imageTokens")?,
        summarization_input: fields.take_one_of(
            "summarizationInput",
            &[
                ("auto", SummarizationInput::Auto),
                ("transcript", SummarizationInput::Transcript),
                ("replay", SummarizationInput::Replay),
            ],
        )?,
        protect_in_flight_turn: fields.take("protectInFlightTurn")?,
        prune,
        instructions: fields.take("instructions")?,
        ..Config::default()
    };
    fields.finish()?;
    Ok(config)
}

/// The settings of an object that have not been read yet.
struct Fields {
    /// What stands before a key when it is named.
    at: String,
    left: Map<String, Value>,
}

impl Fields {
    fn of(at: &str, value: Value) -> Result<Self, ConfigError> {
        match value {
            Value::Object(left) => Ok(Self {
                at: at.into(),
                left,
            }),
            _ => Err(fault(at.trim_end_matches('.'), "it must be an object")),
        }
    }

    /// A setting; none where it is left out or null.
    fn take<T: DeserializeOwned>(&mut self, key: &str) -> Result<Option<T>, ConfigError> {
        let value = self.left.remove(key).unwrap_or_default();
        serde_json::from_value(value)
            .map_err(|error| fault(format!("{}{key}", self.at), error.to_string()))
    }

    fn take_one_of<T: Copy>(
        &mut self,
        key: &str,
        values: &[(&str, T)],
    ) -> Result<Option<T>, ConfigError> {
        let Some(name) = self.take::<String>(key)? else {
            return Ok(None);
        };
        let value = values.iter().find(|(known, _)| *known == name);
        let names: Vec<&str> = values.iter().map(|(name, _)| *name).collect();
        let unknown = || {
            let message = format!("{name:?} is none of {}", names.join(", "));
            fault(format!("{}{key}", self.at), message)
        };
        value.map(|(_, value)| Some(*value)).ok_or_else(unknown)
    }

    fn take_policy(&mut self) -> Result<Policy, ConfigError> {
        let provider: Option<String> = self.take("summarizationProvider")?;
        let model: Option<String> = self.take("summarizationModel")?;
        let summarization_route = match (provider, model) {
            (None, None) => None,
            (Some(provider), Some(model)) => Some(Route { provider, model }),
            (Some(_), None) | (None, Some(_)) => {
                let key = format!("{}summarizationModel", self.at);
                let message = "it and summarizationProvider go together";
                return Err(fault(key, message));
            }
        };
        Ok(Policy {
            threshold_ratio: self.take("thresholdRatio")?,
            threshold_tokens: self.take("thresholdTokens")?,
            retain_tokens: self.take("retainTokens")?,
            retain_ratio: self.take("retainRatio")?,
            summarization_route,
            summarization_max_tokens: self.take("summarizationMaxTokens")?,
            compaction_retries: self.take("compactionRetries")?,
            summary_retries: self.take("summaryRetries")?,
        })
    }

    /// What nobody asked for is a mistake.
    fn finish(self) -> Result<(), ConfigError> {
        match self.left.keys().next() {
            None => Ok(()),
            Some(key) => Err(fault(
                format!("{}{key}", self.at),
                "there is no such setting",
            )),
        }
    }
}

fn fault(key: impl Into<String>, message: impl Into<String>) -> ConfigError {
    ConfigError {
        key: key.into(),
        message: message.into(),
    }
}
