//! What to keep: the newest nodes up to a budget, whole tool exchanges only.

use crate::compact::NodeKind;
use crate::fold::Node;
use crate::pairing::Pairing;

/// How many nodes from the head to compact so that at least the newest `retain`
/// tokens stay. None where nothing can be cut off, or nothing but a checkpoint,
/// which another summary could only make worse.
pub(crate) fn nodes_to_compact(nodes: &[Node], pairing: &Pairing, retain: u32) -> Option<usize> {
    let mut kept = 0u64;
    let mut keep_from = nodes.len();
    while keep_from > 0 && (keep_from == nodes.len() || kept < u64::from(retain)) {
        keep_from -= 1;
        kept += u64::from(nodes[keep_from].tokens);
    }
    // Keeping more is always safe: move the cut head-ward until it is balanced.
    while keep_from > 0 && !pairing.balanced_before(keep_from) {
        keep_from -= 1;
    }
    let only_checkpoints = nodes[..keep_from]
        .iter()
        .all(|node| node.kind == NodeKind::Checkpoint);
    (!only_checkpoints).then_some(keep_from)
}
