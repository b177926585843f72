//! What to keep: the newest nodes up to a budget, whole tool exchanges only.

use crate::compact::NodeKind;
use crate::fold::{Fold, Node};
use crate::pairing::Pairing;

/// How many nodes from the head to compact so that at least the newest `retain`
/// tokens stay; 0 where nothing can be cut off.
pub(crate) fn nodes_to_compact(fold: &Fold, pairing: &Pairing, retain: u32) -> usize {
    headward(pairing, within_budget(&fold.nodes, retain))
}

/// The same where the open turn is to be kept whole. A turn costs what it costs,
/// so the cut may as well give way forward, up to the turn, before it gives way
/// backward.
pub(crate) fn nodes_before_open_turn(fold: &Fold, pairing: &Pairing, retain: u32) -> usize {
    let in_open_turn = |node: &Node| node.turn.is_some() && node.turn == fold.turn;
    let turn = fold.nodes.iter().position(in_open_turn);
    // The newest node stays even where no turn is open.
    let most = turn.unwrap_or(fold.nodes.len().saturating_sub(1));
    let wanted = within_budget(&fold.nodes, retain).min(most);
    let forward = (wanted..=most).find(|cut| pairing.balanced_before(*cut));
    forward.unwrap_or_else(|| headward(pairing, wanted))
}

/// Whether the first `count` nodes hold anything but a checkpoint, of which another
/// summary could only make less.
pub(crate) fn has_news(fold: &Fold, count: usize) -> bool {
    let mut nodes = fold.nodes[..count].iter();
    nodes.any(|node| node.kind != NodeKind::Checkpoint)
}

/// The first node of the newest ones that amount to the budget: at least one.
fn within_budget(nodes: &[Node], retain: u32) -> usize {
    let mut kept = 0u64;
    let mut keep_from = nodes.len();
    while keep_from > 0 && (keep_from == nodes.len() || kept < u64::from(retain)) {
        keep_from -= 1;
        kept += u64::from(nodes[keep_from].tokens);
    }
    keep_from
}

/// The nearest balanced cut that keeps no less.
fn headward(pairing: &Pairing, mut cut: usize) -> usize {
    while cut > 0 && !pairing.balanced_before(cut) {
        cut -= 1;
    }
    cut
}
