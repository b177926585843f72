//! Configurations as JSON.

use harness_compact_host::config_from_json;
use harness_compact_host::types::*;

#[test]
fn every_setting_can_be_given() {
    let json = r#"{
        "contextWindow": 64000, "thresholdRatio": 0.7, "thresholdTokens": 40000, "retainTokens": 5000,
        "summarizationProvider": "p", "summarizationModel": "s", "summarizationMaxTokens": 900,
        "compactionRetries": 2, "summaryRetries": 0, "charsPerToken": 3.5, "scriptAware": false,
        "usageAnchor": "delta", "imageTokens": 99, "summarizationInput": "replay",
        "protectInFlightTurn": true, "prune": {"thresholdChars": 9000, "headChars": 10, "tailChars": 20},
        "instructions": "be brief",
        "modelPolicies": [{"provider": "p", "model": "m", "retainRatio": 0.2}]
    }"#;
    let route = |model: &str| Route {
        provider: "p".into(),
        model: model.into(),
    };
    let expected = Config {
        context_window: Some(64000),
        policy: Policy {
            threshold_ratio: Some(0.7),
            threshold_tokens: Some(40000),
            retain_tokens: Some(5000),
            retain_ratio: None,
            summarization_route: Some(route("s")),
            summarization_max_tokens: Some(900),
            compaction_retries: Some(2),
            summary_retries: Some(0),
        },
        model_policies: vec![ModelPolicy {
            route: route("m"),
            policy: Policy {
                retain_ratio: Some(0.2),
                ..Policy::default()
            },
        }],
        chars_per_token: Some(3.5),
        script_aware: Some(false),
        usage_anchor: Some(UsageAnchor::Delta),
        image_tokens: Some(99),
        summarization_input: Some(SummarizationInput::Replay),
        protect_in_flight_turn: Some(true),
        prune: Some(PruneConfig {
            threshold_chars: Some(9000),
            head_chars: Some(10),
            tail_chars: Some(20),
        }),
        instructions: Some("be brief".into()),
        ..Config::default()
    };
    assert_eq!(config_from_json(json), Ok(expected));
    assert_eq!(
        config_from_json(r#"{"retainTokens": null}"#),
        Ok(Config::default())
    );
}

#[test]
fn a_mistake_is_named_as_it_stands_in_the_json() {
    for (json, key) in [
        ("{", ""),
        ("[]", ""),
        (r#"{"retainToken": 1}"#, "retainToken"),
        (r#"{"retainTokens": -1}"#, "retainTokens"),
        (r#"{"retainTokens": "1"}"#, "retainTokens"),
        (r#"{"usageAnchor": "on"}"#, "usageAnchor"),
        (r#"{"summarizationInput": 1}"#, "summarizationInput"),
        (r#"{"summarizationModel": "m"}"#, "summarizationModel"),
        (r#"{"prune": {"headChar": 1}}"#, "prune.headChar"),
        (r#"{"prune": true}"#, "prune"),
        (r#"{"modelPolicies": {}}"#, "modelPolicies"),
        (r#"{"modelPolicies": [{}, 1]}"#, "modelPolicies[1]"),
        (
            r#"{"modelPolicies": [{"provider": "p", "model": "m", "auto": 1}]}"#,
            "modelPolicies[0].auto",
        ),
    ] {
        assert_eq!(
            config_from_json(json).map_err(|error| error.key),
            Err(key.into()),
            "{json}"
        );
    }
}
