//! The operations.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ops::{Deref, DerefMut};

use crate::acceptance;
use crate::checkpoint;
use crate::commit::{self, Started};
use crate::compact::{
    AgentContext, CompactError, CompactionResult, Config, ConfigError, Measurement, NowOptions,
    Pruned, SummarizationInput, SurfaceNode, Trigger, UsageAnchor,
};
use crate::fold::{Fold, Link};
use crate::llm::Model;
use crate::pairing::Pairing;
use crate::reading::Reader;
use crate::retention::{has_news, nodes_before_open_turn, nodes_to_compact};
use crate::session::{CompactSummary, Payload, SessionLog};
use crate::settings::{Budgets, EffectivePolicy, Settings};
use crate::summarise::{Entry, Shown, Summariser};
use crate::transcript;
use crate::types::{AbortSignal, ContentBlock, Message, Route, Seq, SurfaceRange};
use crate::usage::Reckoned;

/// Compacts sessions under one configuration. It keeps what it has folded of each
/// session, by the session's id, and reads only new events.
#[derive(Debug)]
pub struct Compactor {
    settings: Settings,
    folds: RefCell<BTreeMap<String, Fold>>,
}

/// Attempts in a row after which automatic calls decline: another would not fare
/// better.
const MOST_ATTEMPTS: u32 = 3;

/// What one operation works with.
struct Operation<'a, S, M: Model<S>> {
    reader: Reader<'a, S, M>,
    signal: Option<&'a M::Signal>,
    settings: &'a Settings,
    policy: EffectivePolicy,
    budgets: Budgets,
    /// The session's own model.
    route: Option<Route>,
    /// Whether the host can replay the session's request.
    can_replay: bool,
    /// Whether the provider has just refused that request.
    overflowed: bool,
    /// Whether the next request goes where the last one went.
    same_route: bool,
    /// Tokens of the next request that are not on the surface.
    overhead: u32,
    /// What the user wants the summary to dwell on.
    focus: Option<&'a str>,
}

impl Compactor {
    /// Make one. The error names the setting at fault.
    pub fn new(config: Config) -> Result<Self, ConfigError> {
        Ok(Self {
            settings: Settings::new(config)?,
            folds: RefCell::default(),
        })
    }

    /// Estimate the next request: session prefix, surface, system prompt and tools.
    pub async fn measure<S: SessionLog, M: Model<S>>(
        &self,
        session: &S,
        model: &M,
        agent: &AgentContext,
        full_system_prompt: &str,
        session_prefix: &[Message],
    ) -> Result<Measurement, CompactError> {
        let mut fold = self.hold(session);
        let operation = self.begin(session, model, None, agent, &mut fold).await?;
        let operation = operation
            .request(agent, full_system_prompt, session_prefix)
            .await?;
        Ok(operation.measurement(&fold))
    }

    /// The surface, node by node.
    pub async fn surface<S: SessionLog, M: Model<S>>(
        &self,
        session: &S,
        model: &M,
    ) -> Result<Vec<SurfaceNode>, CompactError> {
        let mut fold = self.hold(session);
        self.reader(session, model).catch_up(&mut fold).await?;
        let mut pairing = Pairing::of(&fold);
        let nodes = fold.nodes.iter().enumerate();
        Ok(nodes
            .map(|(at, node)| SurfaceNode {
                seq: node.seq,
                kind: node.kind,
                tokens: node.tokens,
                balanced_before: pairing.balanced_before(at),
                open_calls: std::mem::take(&mut pairing.open[at]),
                dead_calls: std::mem::take(&mut pairing.dead[at]),
                orphaned_results: std::mem::take(&mut pairing.orphaned[at]),
                pinned: !node.pins.is_empty(),
            })
            .collect())
    }

    /// Compact if `trigger` calls for it; none where nothing needs or can be done.
    #[allow(clippy::too_many_arguments, reason = "the contract's signature")]
    pub async fn compact_if_needed<S: SessionLog, M: Model<S>>(
        &self,
        session: &S,
        model: &M,
        agent: &AgentContext,
        full_system_prompt: &str,
        session_prefix: &[Message],
        trigger: Trigger,
        signal: Option<&M::Signal>,
    ) -> Result<Option<CompactionResult>, CompactError> {
        let mut fold = self.hold(session);
        let operation = self.begin(session, model, signal, agent, &mut fold).await?;
        let operation = operation
            .request(agent, full_system_prompt, session_prefix)
            .await?;
        match trigger {
            Trigger::Pressure => operation.relieve(&mut fold).await,
            Trigger::ContextOverflow => operation.recover(&mut fold).await,
        }
    }

    /// Compact this inclusive range of surface nodes, whatever the pressure.
    pub async fn compact_region<S: SessionLog, M: Model<S>>(
        &self,
        session: &S,
        model: &M,
        range: SurfaceRange,
        agent: &AgentContext,
        signal: Option<&M::Signal>,
    ) -> Result<CompactionResult, CompactError> {
        let mut fold = self.hold(session);
        let operation = self.begin(session, model, signal, agent, &mut fold).await?;
        operation.compact(&mut fold, range).await
    }

    /// Compact on a user's command, whatever the pressure; none where there is
    /// nothing to gain.
    pub async fn compact_now<S: SessionLog, M: Model<S>>(
        &self,
        session: &S,
        model: &M,
        agent: &AgentContext,
        options: &NowOptions,
        signal: Option<&M::Signal>,
    ) -> Result<Option<CompactionResult>, CompactError> {
        let mut fold = self.hold(session);
        let mut operation = self.begin(session, model, signal, agent, &mut fold).await?;
        operation.focus = options.instructions.as_deref();
        let retain = options.retain_tokens.unwrap_or(0);
        operation.reduce(&mut fold, retain).await
    }

    /// Rewrite every oversized tool result on the surface, without a model.
    pub async fn prune<S: SessionLog, M: Model<S>>(
        &self,
        session: &S,
        model: &M,
    ) -> Result<Vec<Pruned>, CompactError> {
        let mut fold = self.hold(session);
        let reader = self.reader(session, model);
        reader.catch_up(&mut fold).await?;
        let pruned = commit::prune(&reader, &mut fold, self.settings.prune_limits()).await?;
        if !pruned.is_empty() {
            session.flush().await?;
        }
        Ok(pruned)
    }

    /// Forget what was folded of a session that will not be used again.
    pub fn forget(&self, session_id: &str) {
        self.folds.borrow_mut().remove(session_id);
    }

    fn reader<'a, S, M>(&self, session: &'a S, model: &'a M) -> Reader<'a, S, M> {
        Reader {
            session,
            model,
            pricing: self.settings.pricing(),
            host_counts: self.settings.hooks().estimate_content_tokens,
        }
    }

    /// Bring the fold up to date and settle what the operation works with.
    async fn begin<'a, S: SessionLog, M: Model<S>>(
        &'a self,
        session: &'a S,
        model: &'a M,
        signal: Option<&'a M::Signal>,
        agent: &AgentContext,
        fold: &mut Fold,
    ) -> Result<Operation<'a, S, M>, CompactError> {
        if signal.is_some_and(AbortSignal::aborted) {
            return Err(CompactError::Aborted);
        }
        let reader = self.reader(session, model);
        reader.catch_up(fold).await?;
        let header = fold.header.as_ref();
        let route = agent.route.clone().or(header.map(|h| h.route.clone()));
        let policy = self.settings.policy_for(route.as_ref());
        let window = match (agent.context_window, &route) {
            (Some(window), _) => Some(window),
            (None, Some(route)) => model.describe_model(route).await.map(|m| m.context_window),
            (None, None) => None,
        };
        let window = window.unwrap_or(self.settings.fallback_window());
        let budgets = policy.budgets(window, agent.output_tokens.unwrap_or(0))?;
        // Where the caller says nothing of it, the log's newest request header does.
        let overhead = header.map_or(agent.tools_tokens, |header| header.overhead_tokens);
        Ok(Operation {
            reader,
            signal,
            settings: &self.settings,
            policy,
            budgets,
            same_route: header.is_none_or(|header| Some(&header.route) == route.as_ref()),
            route,
            can_replay: agent.can_replay,
            overflowed: false,
            overhead,
            focus: None,
        })
    }

    /// Take a session's fold out, and put it back when it is dropped.
    fn hold<S: SessionLog>(&self, session: &S) -> Held<'_> {
        let id = session.id();
        let fold = self.folds.borrow_mut().remove(&id).unwrap_or_default();
        Held {
            folds: &self.folds,
            id,
            fold,
        }
    }
}

impl<S: SessionLog, M: Model<S>> Operation<'_, S, M> {
    /// Count what the caller sends besides the surface.
    async fn request(
        mut self,
        agent: &AgentContext,
        system_prompt: &str,
        prefix: &[Message],
    ) -> Result<Self, CompactError> {
        if !system_prompt.is_empty() {
            let prompt = self.reader.pricing.text(system_prompt);
            self.overhead = agent.tools_tokens.saturating_add(prompt);
        } else if agent.tools_tokens > 0 {
            self.overhead = agent.tools_tokens;
        }
        for message in prefix {
            let message = self.reader.price_message(&message.content).await?;
            self.overhead = self.overhead.saturating_add(message);
        }
        Ok(self)
    }

    /// The next request, on the base of what the provider last counted.
    fn reckon(&self, fold: &Fold) -> Reckoned {
        let mode = match self.same_route {
            true => self.settings.usage_anchor(),
            // What another model counted says little of this one.
            false => UsageAnchor::Off,
        };
        let header = fold.header.as_ref();
        let surface = fold.surface_tokens;
        fold.anchors.reckon(mode, header, surface, self.overhead)
    }

    fn measurement(&self, fold: &Fold) -> Measurement {
        let clamp = |tokens: u64| u32::try_from(tokens).unwrap_or(u32::MAX);
        Measurement {
            total_tokens: clamp(self.reckon(fold).total),
            surface_tokens: clamp(fold.surface_tokens),
            threshold_tokens: self.budgets.threshold,
            retain_tokens: self.budgets.retain,
            context_window: self.budgets.window,
            nodes: fold.nodes.len() as u32,
        }
    }

    /// Compact until the next request is below the threshold.
    async fn relieve(&self, fold: &mut Fold) -> Result<Option<CompactionResult>, CompactError> {
        commit::check_lock(fold)?;
        self.policy.check_retention(self.budgets)?;
        let threshold = self.budgets.threshold;
        let is_due = |fold: &Fold| self.measurement(fold).total_tokens >= threshold;
        if !is_due(fold) {
            return Ok(None);
        }
        if self.overhead >= threshold {
            return Err(CompactError::Irreducible((self.overhead, threshold)));
        }
        if fold.attempts >= MOST_ATTEMPTS {
            return Ok(None);
        }
        self.prune_first(fold).await?;
        if !is_due(fold) {
            return Ok(None);
        }
        let retain = self.budgets.retain;
        let Some(mut result) = self.reduce(fold, retain).await? else {
            return Ok(None);
        };
        for _ in 0..self.policy.compaction_retries {
            if !is_due(fold) {
                break;
            }
            // What is left may be the checkpoint alone: it was too long, then.
            let count = self.nodes_to_compact(fold, retain);
            match self.compact_head(fold, count).await? {
                Some(shorter) => result = shorter,
                None => break,
            }
        }
        match self.measurement(fold).total_tokens {
            total if total < threshold => Ok(Some(result)),
            total => Err(CompactError::NotConverged((total, threshold))),
        }
    }

    /// Make the next request as small as can be: the provider has refused the last.
    async fn recover(mut self, fold: &mut Fold) -> Result<Option<CompactionResult>, CompactError> {
        commit::check_lock(fold)?;
        if fold.attempts >= MOST_ATTEMPTS {
            return Ok(None);
        }
        self.overflowed = true;
        self.prune_first(fold).await?;
        match self.reduce(fold, 0).await? {
            // A turn that fills the window alone cannot be kept whole.
            None if self.settings.protect_in_flight_turn() => {
                let count = nodes_to_compact(fold, &Pairing::of(fold), 0);
                let count = if has_news(fold, count) { count } else { 0 };
                self.compact_head(fold, count).await
            }
            result => Ok(result),
        }
    }

    async fn prune_first(&self, fold: &mut Fold) -> Result<(), CompactError> {
        if self.settings.prunes_first() {
            commit::prune(&self.reader, fold, self.settings.prune_limits()).await?;
        }
        Ok(())
    }

    /// Compact all but the newest `retain` tokens, once. None where nothing can be
    /// cut off, or nothing but a checkpoint.
    async fn reduce(
        &self,
        fold: &mut Fold,
        retain: u32,
    ) -> Result<Option<CompactionResult>, CompactError> {
        let count = self.nodes_to_compact(fold, retain);
        let count = if has_news(fold, count) { count } else { 0 };
        self.compact_head(fold, count).await
    }

    fn nodes_to_compact(&self, fold: &Fold, retain: u32) -> usize {
        // What is kept is measured as the provider counts, like all else.
        let retain = (f64::from(retain) / self.reckon(fold).scale) as u32;
        let pairing = Pairing::of(fold);
        match self.settings.protect_in_flight_turn() {
            true => nodes_before_open_turn(fold, &pairing, retain),
            false => nodes_to_compact(fold, &pairing, retain),
        }
    }

    /// Compact this many nodes from the head on; none where there are none.
    async fn compact_head(
        &self,
        fold: &mut Fold,
        count: usize,
    ) -> Result<Option<CompactionResult>, CompactError> {
        let Some(last) = count.checked_sub(1) else {
            return Ok(None);
        };
        let range = SurfaceRange {
            start: fold.nodes[0].seq,
            end: fold.nodes[last].seq,
        };
        self.compact(fold, range).await.map(Some)
    }

    /// The whole of one compaction.
    async fn compact(
        &self,
        fold: &mut Fold,
        range: SurfaceRange,
    ) -> Result<CompactionResult, CompactError> {
        let before = self.measurement(fold);
        let started = commit::begin(&self.reader, fold, range).await?;
        let result = self.replace(fold, range, &started, before).await;
        if let Err(error) = &result {
            commit::abandon(&self.reader, fold, &started, error).await;
        }
        let result = result?;
        self.reader.session.flush().await?;
        Ok(result)
    }

    /// Between the lock and its release: summarise, accept, land.
    async fn replace(
        &self,
        fold: &mut Fold,
        range: SurfaceRange,
        started: &Started,
        before: Measurement,
    ) -> Result<CompactionResult, CompactError> {
        let first = fold.position(range.start).unwrap_or_default();
        let nodes = &fold.nodes[first..first + started.nodes.len()];
        let shadowed: u64 = nodes.iter().map(|node| u64::from(node.tokens)).sum();
        let shadowed_token_count = u32::try_from(shadowed).unwrap_or(u32::MAX);
        let pins: Vec<Seq> = nodes.iter().flat_map(|n| n.pins.iter().copied()).collect();
        let calls = nodes.iter().flat_map(|node| &node.links);
        let removed_call_ids = calls
            .filter_map(|link| match link {
                Link::Call(id) => Some(id.clone()),
                Link::Result(_) => None,
            })
            .collect();

        let mut pairing = Pairing::of(fold);
        let dead = &mut pairing.dead[first..first + started.nodes.len()];
        let route = self.summarization_route();
        let info = self.reader.model.describe_model(&route).await;
        let hooked = self.settings.hooks().summarize;
        let mut events = match info.is_some_and(|info| info.reads_nodes()) && !hooked {
            true => Vec::new(),
            false => self.reader.nodes(&started.nodes).await?,
        }
        .into_iter();
        let entry = |(seq, dead): (&Seq, &mut Vec<String>)| {
            let dead_calls = std::mem::take(dead);
            let event = events.next();
            let text = event.map(|event| transcript::entry(&event, &dead_calls));
            Entry {
                seq: *seq,
                text: text.unwrap_or_default(),
                dead_calls,
            }
        };
        let entries: Vec<Entry> = started.nodes.iter().zip(dead).map(entry).collect();
        let pinned = self.pinned(&pins).await?;
        let reckoned = self.reckon(fold);
        let instructions = self.settings.instructions();
        let input = self.settings.summarization_input();
        let summariser = Summariser {
            session: self.reader.session,
            model: self.reader.model,
            signal: self.signal,
            pricing: self.reader.pricing,
            policy: &self.policy,
            route,
            info,
            fallback_window: self.budgets.window,
            scale: reckoned.scale,
            focus: instructions.into_iter().chain(self.focus).collect(),
            strict: input == SummarizationInput::Auto,
        };
        let made = if hooked {
            summariser.by_host(&entries).await?
        } else {
            let shown = match input {
                SummarizationInput::Transcript => Shown::Transcript,
                SummarizationInput::Replay if !self.can_replay => {
                    return Err(CompactError::Config(ConfigError {
                        key: "summarization-input".into(),
                        message: "the host cannot replay the session's request".into(),
                    }));
                }
                SummarizationInput::Replay => Shown::Replay,
                SummarizationInput::Auto => {
                    // Only what begins as the last request did, for the model that
                    // read it, is in the provider's cache.
                    let configured = self.policy.summarization_route.as_ref();
                    let own = configured.is_none_or(|route| Some(route) == self.route.as_ref());
                    let cached = first == 0 && own;
                    let tried = self.can_replay && cached && self.same_route && !self.overflowed;
                    let needed = reckoned
                        .total
                        .saturating_add(summariser.replay_tokens().into());
                    match tried && needed <= u64::from(self.budgets.window) {
                        true => Shown::ReplayFirst,
                        false => Shown::Transcript,
                    }
                }
            };
            summariser.condense(entries, shown).await?
        };

        let checkpoint = checkpoint::frame(&made.content, pinned);
        let framed = self.reader.price_message(&checkpoint).await?;
        acceptance::accept_size(framed, shadowed_token_count)?;
        if self.signal.is_some_and(AbortSignal::aborted) {
            return Err(CompactError::Aborted);
        }
        let record = CompactSummary {
            summary: made.content.clone(),
            shadowed_range: range,
            shadowed_seqs: started.nodes.clone(),
            shadowed_token_count,
            model: made.model,
            max_tokens: made.max_tokens,
            usage: made.usage,
        };
        let landed = commit::land(&self.reader, fold, started, record, checkpoint).await?;
        self.reader.catch_up(fold).await?;
        Ok(CompactionResult {
            start_seq: started.seq,
            summary_seq: landed.summary_seq,
            end_seq: landed.end_seq,
            summary: made.content,
            shadowed_range: range,
            shadowed_seqs: started.nodes.clone(),
            shadowed_token_count,
            removed_call_ids,
            elided_seqs: made.elided,
            before,
            after: self.measurement(fold),
        })
    }

    /// What the pinned messages among the range say.
    async fn pinned(&self, pins: &[Seq]) -> Result<Vec<ContentBlock>, CompactError> {
        let events = self.reader.nodes(pins).await?;
        let content = events.into_iter().map(|event| match event.payload {
            Payload::UserMessage(message) => message.content,
            _ => Vec::new(),
        });
        Ok(content.flatten().collect())
    }

    /// Who summarises: who the configuration says, else the session's own model,
    /// else whom the host chooses.
    fn summarization_route(&self) -> Route {
        let configured = self.policy.summarization_route.clone();
        configured.or(self.route.clone()).unwrap_or_default()
    }
}

/// A fold that is in use.
struct Held<'a> {
    folds: &'a RefCell<BTreeMap<String, Fold>>,
    id: String,
    fold: Fold,
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        let id = std::mem::take(&mut self.id);
        let fold = std::mem::take(&mut self.fold);
        self.folds.borrow_mut().insert(id, fold);
    }
}

impl Deref for Held<'_> {
    type Target = Fold;
    fn deref(&self) -> &Fold {
        &self.fold
    }
}

impl DerefMut for Held<'_> {
    fn deref_mut(&mut self) -> &mut Fold {
        &mut self.fold
    }
}
