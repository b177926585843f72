//! Which tool calls have their results, and where the surface can be cut.

use std::collections::BTreeMap;

use crate::compact::NodeKind;
use crate::fold::{Fold, Link, Node};

/// The tool exchanges of a surface.
#[derive(Debug)]
pub(crate) struct Pairing {
    /// For each of the n + 1 cuts, the one before node `i` at `i`, whether it
    /// parts no call from its result.
    balanced: Vec<bool>,
    /// By node, the ids of its calls that may still be answered.
    pub open: Vec<Vec<String>>,
    /// By node, the ids of its calls that never will be.
    pub dead: Vec<Vec<String>>,
    /// By node, the ids of its results that answer no call.
    pub orphaned: Vec<Vec<String>>,
}

impl Pairing {
    /// Pair the calls and results of a surface by call id.
    ///
    /// Ids are not trusted to be unique: a result answers the newest call of its
    /// id that has none yet, as a provider reads it.
    pub fn of(fold: &Fold) -> Self {
        let nodes = &fold.nodes;
        let count = nodes.len();
        let mut waiting: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
        let mut orphaned = vec![Vec::new(); count];
        // How many pairs a cut would part: up where a pair begins, down where it ends.
        let mut steps = vec![0i64; count + 2];
        for (at, node) in nodes.iter().enumerate() {
            for link in &node.links {
                match link {
                    Link::Call(id) => waiting.entry(id).or_default().push(at),
                    Link::Result(id) => match waiting.get_mut(id.as_str()).and_then(Vec::pop) {
                        Some(call) => {
                            steps[call + 1] += 1;
                            steps[at + 1] -= 1;
                        }
                        None => {
                            // Whatever it belongs to, it goes with what precedes it.
                            if at > 0 {
                                steps[at] += 1;
                                steps[at + 1] -= 1;
                            }
                            orphaned[at].push(id.clone());
                        }
                    },
                }
            }
        }
        let (mut open, mut dead) = (vec![Vec::new(); count], vec![Vec::new(); count]);
        for (id, calls) in waiting {
            for at in calls {
                if may_be_answered(nodes, at, fold.turn) {
                    steps[at + 1] += 1;
                    open[at].push(id.to_owned());
                } else {
                    dead[at].push(id.to_owned());
                }
            }
        }
        let mut parted = 0;
        let balanced = steps[..=count]
            .iter()
            .map(|step| {
                parted += step;
                parted == 0
            })
            .collect();
        Self {
            balanced,
            open,
            dead,
            orphaned,
        }
    }

    /// Whether a cut directly before node `at` (or after the last, at n) parts
    /// no call from its result.
    pub fn balanced_before(&self, at: usize) -> bool {
        self.balanced[at]
    }
}

/// Whether an unanswered call's tool may still be running: its turn is open and
/// the model has not gone on without it. In a log without turns a later message
/// of the user's ends it as well.
fn may_be_answered(nodes: &[Node], call: usize, open_turn: Option<u32>) -> bool {
    nodes[call].turn == open_turn
        && !nodes[call + 1..].iter().any(|later| {
            later.kind == NodeKind::Assistant
                || (open_turn.is_none() && later.kind == NodeKind::User)
        })
}
