//! A compaction backend to start from. It calls no model: what it removes it
//! outlines, by the user's requests, the tools that ran and the newest answer.
//!
//! What a backend must do is in `wit/`; this one does it in the plainest way.
//! `surface.rs` reads the log, `outline.rs` writes the summary, and this file
//! decides when and what to compact, and lands it.

mod outline;
mod surface;

use std::cell::{RefCell, RefMut};
use std::collections::HashMap;

use exports::harness::compact::compact::{
    AgentContext, CompactError, CompactionResult, Compactor, Config, ConfigError, Guest,
    GuestCompactor, Measurement, NowOptions, Pruned, Rejection, SurfaceNode, Trigger,
};
use harness::compact::session::{
    CompactEnd, CompactStart, CompactSummary, Draft, Event, Payload, Session, SessionError,
    SurfaceOp, UserMessage,
};
use harness::compact::types::{AbortSignal, ContentBlock, Message, Seq, SurfaceRange};
use surface::{Surface, price};

wit_bindgen::generate!({ path: "../../wit", world: "compactor" });

export!(Backend);

struct Backend;

impl Guest for Backend {
    type Compactor = Outliner;
}

const WINDOW: u32 = 128_000;
const THRESHOLD: f64 = 0.8;
const RETAIN: f64 = 0.16;
/// Failures in a row after which another attempt by itself would not fare better.
const MOST_FAILURES: u32 = 3;
/// How often a write is tried against a log that others keep writing to.
const ATTEMPTS: u32 = 16;

/// The settings that this backend has a use for. The others are for backends that
/// call a model.
struct Settings {
    window: u32,
    threshold_ratio: f64,
    retain_tokens: Option<u32>,
    retain_ratio: f64,
}

struct Outliner {
    settings: Settings,
    /// What has been read of each session: the next call reads only what is new.
    surfaces: RefCell<HashMap<String, Surface>>,
}

impl GuestCompactor for Outliner {
    fn create(config: Config) -> Result<Compactor, ConfigError> {
        let ratio = |key: &str, value: Option<f64>, default| match value.unwrap_or(default) {
            ratio if ratio > 0.0 && ratio <= 1.0 => Ok(ratio),
            ratio => Err(ConfigError {
                key: key.into(),
                message: format!("{ratio} is not above 0 and at most 1"),
            }),
        };
        let policy = config.policy;
        let settings = Settings {
            window: config.context_window.unwrap_or(WINDOW),
            threshold_ratio: ratio("policy.threshold-ratio", policy.threshold_ratio, THRESHOLD)?,
            retain_tokens: policy.retain_tokens,
            retain_ratio: ratio("policy.retain-ratio", policy.retain_ratio, RETAIN)?,
        };
        if settings.window == 0 {
            return Err(ConfigError {
                key: "context-window".into(),
                message: "a window of 0 tokens holds nothing".into(),
            });
        }
        let surfaces = RefCell::default();
        Ok(Compactor::new(Self { settings, surfaces }))
    }

    fn measure(
        &self,
        session: &Session,
        agent: AgentContext,
        full_system_prompt: String,
        session_prefix: Vec<Message>,
    ) -> Result<Measurement, CompactError> {
        let surface = self.read(session)?;
        Ok(self.measured(
            &surface,
            &agent,
            overhead(&full_system_prompt, &session_prefix),
        ))
    }

    fn surface(&self, session: &Session) -> Result<Vec<SurfaceNode>, CompactError> {
        Ok(self.read(session)?.nodes())
    }

    fn compact_if_needed(
        &self,
        session: &Session,
        agent: AgentContext,
        full_system_prompt: String,
        session_prefix: Vec<Message>,
        trigger: Trigger,
        signal: Option<&AbortSignal>,
    ) -> Result<Option<CompactionResult>, CompactError> {
        let mut surface = self.read(session)?;
        let overhead = overhead(&full_system_prompt, &session_prefix);
        let now = self.measured(&surface, &agent, overhead);
        let retain = match trigger {
            Trigger::Pressure if now.total_tokens < now.threshold_tokens => return Ok(None),
            Trigger::Pressure => now.retain_tokens,
            Trigger::ContextOverflow => 0,
        };
        match surface.range_but(retain) {
            Some(range) if surface.failures < MOST_FAILURES => self
                .compact(session, &mut surface, range, &agent, overhead, signal)
                .map(Some),
            _ => Ok(None),
        }
    }

    fn compact_region(
        &self,
        session: &Session,
        range: SurfaceRange,
        agent: AgentContext,
        signal: Option<&AbortSignal>,
    ) -> Result<CompactionResult, CompactError> {
        let mut surface = self.read(session)?;
        self.compact(session, &mut surface, range, &agent, 0, signal)
    }

    fn compact_now(
        &self,
        session: &Session,
        agent: AgentContext,
        options: NowOptions,
        signal: Option<&AbortSignal>,
    ) -> Result<Option<CompactionResult>, CompactError> {
        let mut surface = self.read(session)?;
        let Some(range) = surface.range_but(options.retain_tokens.unwrap_or(0)) else {
            return Ok(None);
        };
        self.compact(session, &mut surface, range, &agent, 0, signal)
            .map(Some)
    }

    /// This backend leaves tool results as they are.
    fn prune(&self, session: &Session) -> Result<Vec<Pruned>, CompactError> {
        self.read(session).map(|_| Vec::new())
    }

    fn forget(&self, session_id: String) {
        self.surfaces.borrow_mut().remove(&session_id);
    }
}

impl Outliner {
    /// The surface as the log has it now.
    fn read(&self, session: &Session) -> Result<RefMut<'_, Surface>, CompactError> {
        let surfaces = self.surfaces.borrow_mut();
        let mut surface = RefMut::map(surfaces, |known| known.entry(session.id()).or_default());
        surface.catch_up(session)?;
        Ok(surface)
    }

    fn measured(&self, surface: &Surface, agent: &AgentContext, overhead: u32) -> Measurement {
        let window = agent.context_window.unwrap_or(self.settings.window);
        let share = |ratio: f64| (f64::from(window) * ratio) as u32;
        let reserved = window.saturating_sub(agent.output_tokens.unwrap_or(0));
        let threshold_tokens = share(self.settings.threshold_ratio).min(reserved).max(1);
        let retain = self.settings.retain_tokens;
        Measurement {
            total_tokens: surface.tokens() + overhead + agent.tools_tokens,
            surface_tokens: surface.tokens(),
            threshold_tokens,
            retain_tokens: retain
                .unwrap_or(share(self.settings.retain_ratio))
                .min(threshold_tokens),
            context_window: window,
            nodes: surface.len() as u32,
        }
    }

    /// Outline a range and land the outline: take the lock, read, write, give it back.
    fn compact(
        &self,
        session: &Session,
        surface: &mut Surface,
        range: SurfaceRange,
        agent: &AgentContext,
        overhead: u32,
        signal: Option<&AbortSignal>,
    ) -> Result<CompactionResult, CompactError> {
        let aborted = || signal.is_some_and(AbortSignal::aborted);
        let before = self.measured(surface, agent, overhead);
        if aborted() {
            return Err(CompactError::Aborted);
        }
        let start_seq = self.begin(session, surface, range)?;
        match self.land(session, surface, range, start_seq, before, &aborted) {
            Ok(mut result) => {
                session.flush()?;
                surface.catch_up(session)?;
                result.after = self.measured(surface, agent, overhead);
                Ok(result)
            }
            Err(error) => {
                // The session is as it was; only the lock is to be given back, and
                // what goes wrong with that is not the caller's error.
                if surface.catch_up(session).is_ok() && surface.lock == Some(start_seq) {
                    let failed = end(surface.turn, Some(format!("{error:?}")));
                    let _ = session.append(&[failed], None);
                }
                Err(error)
            }
        }
    }

    /// Take the lock, where the range can be compacted and nobody else holds it.
    fn begin(
        &self,
        session: &Session,
        surface: &mut Surface,
        range: SurfaceRange,
    ) -> Result<Seq, CompactError> {
        for _ in 0..ATTEMPTS {
            surface.check(range)?;
            let mut drafts = Vec::new();
            match surface.lock {
                Some(seq) if !surface.lock_is_stale => return Err(CompactError::Busy(seq)),
                Some(_) => drafts.push(end(surface.lock_turn, Some("it was abandoned".into()))),
                None => {}
            }
            let turn = surface.turn;
            drafts.push(log_only(Payload::CompactStart(CompactStart { turn })));
            match session.append(&drafts, Some(surface.next)) {
                Ok(first) => {
                    surface.catch_up(session)?;
                    return Ok(first + drafts.len() as Seq - 1);
                }
                Err(SessionError::Conflict(_)) => surface.catch_up(session)?,
                Err(error) => return Err(error.into()),
            }
        }
        Err(CompactError::Changed)
    }

    /// Write the summary, the node that takes the range's place, and the end, in one
    /// append or not at all. The result's `after` is the caller's to measure.
    fn land(
        &self,
        session: &Session,
        surface: &mut Surface,
        range: SurfaceRange,
        start_seq: Seq,
        before: Measurement,
        aborted: &dyn Fn() -> bool,
    ) -> Result<CompactionResult, CompactError> {
        let nodes = surface.check(range)?;
        let turn = surface.turn;
        let shadowed_seqs: Vec<Seq> = nodes.iter().map(|node| node.seq).collect();
        let shadowed = nodes.iter().map(|node| node.tokens).sum();
        let removed_call_ids = nodes.iter().flat_map(|node| node.calls.clone()).collect();
        let pins: Vec<Seq> = nodes.iter().flat_map(|node| node.pins.clone()).collect();

        let events = read_each(session, &shadowed_seqs)?;
        let pinned = read_each(session, &pins)?;
        let summary = vec![ContentBlock::Text(outline::of(&events, shadowed))];
        let checkpoint = outline::framed(&summary, &pinned);
        let framed = price(&checkpoint);
        if framed >= shadowed {
            let rejected = Rejection::NotSmaller((framed, shadowed));
            return Err(CompactError::SummaryRejected(rejected));
        }
        if aborted() {
            return Err(CompactError::Aborted);
        }

        for _ in 0..ATTEMPTS {
            surface.catch_up(session)?;
            let stands = surface
                .check(range)
                .is_ok_and(|nodes| nodes.iter().map(|node| node.seq).eq(shadowed_seqs.clone()));
            if !stands || surface.lock != Some(start_seq) {
                return Err(CompactError::Changed);
            }
            let summary_seq = surface.next;
            let sources = [start_seq, summary_seq].into_iter();
            let drafts = [
                log_only(Payload::CompactSummary(CompactSummary {
                    summary: summary.clone(),
                    shadowed_range: range,
                    shadowed_seqs: shadowed_seqs.clone(),
                    shadowed_token_count: shadowed,
                    model: None,
                    max_tokens: None,
                    usage: None,
                })),
                Draft {
                    payload: Payload::UserMessage(UserMessage {
                        content: checkpoint.clone(),
                        source: surface::CHECKPOINT.into(),
                        pinned: false,
                    }),
                    surface: Some(SurfaceOp::Replace(range)),
                    sources: sources.chain(shadowed_seqs.clone()).collect(),
                },
                end(turn, None),
            ];
            match session.append(&drafts, Some(summary_seq)) {
                Ok(_) => {
                    return Ok(CompactionResult {
                        start_seq,
                        summary_seq,
                        end_seq: summary_seq + 2,
                        summary,
                        shadowed_range: range,
                        shadowed_seqs,
                        shadowed_token_count: shadowed,
                        removed_call_ids,
                        elided_seqs: Vec::new(),
                        before,
                        // Measured once it has landed.
                        after: before,
                    });
                }
                Err(SessionError::Conflict(_)) => continue,
                Err(error) => return Err(error.into()),
            }
        }
        Err(CompactError::Changed)
    }
}

impl From<SessionError> for CompactError {
    fn from(error: SessionError) -> Self {
        Self::Session(error)
    }
}

fn overhead(system_prompt: &str, prefix: &[Message]) -> u32 {
    let messages = prefix.iter().map(|message| price(&message.content));
    surface::price_text(system_prompt) + messages.sum::<u32>()
}

fn log_only(payload: Payload) -> Draft {
    Draft {
        payload,
        surface: None,
        sources: Vec::new(),
    }
}

fn end(turn: Option<u32>, error: Option<String>) -> Draft {
    log_only(Payload::CompactEnd(CompactEnd { turn, error }))
}

fn read_each(session: &Session, seqs: &[Seq]) -> Result<Vec<Event>, SessionError> {
    let one = |seq: &Seq| {
        let found = session.read(*seq, 1)?.into_iter().next();
        found.ok_or_else(|| SessionError::Corrupt(format!("event {seq} is missing")))
    };
    seqs.iter().map(one).collect()
}
