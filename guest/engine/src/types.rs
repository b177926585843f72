//! `wit/types.wit`: the vocabulary shared by every interface.

/// Position of an event in a session log: 0 for the first event, then contiguous.
pub type Seq = u32;

/// A contract enum. `_lift` is the name by which wit-bindgen makes one from its
/// discriminant, so that the component shell can use these types as they are.
macro_rules! contract_enum {
    ($(#[$meta:meta])* $name:ident { $($(#[$case_meta:meta])* $case:ident,)+ }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
        pub enum $name { $($(#[$case_meta])* $case,)+ }

        impl $name {
            #[doc(hidden)]
            pub fn _lift(discriminant: u8) -> Self {
                const CASES: &[$name] = &[$($name::$case),+];
                CASES[usize::from(discriminant)]
            }
        }
    };
}
pub(crate) use contract_enum;

/// Inclusive span of surface positions, named by the seqs of its first and last
/// node. Not a numeric interval: `start` can exceed `end`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct SurfaceRange {
    /// Seq of the first node of the span.
    pub start: Seq,
    /// Seq of its last node.
    pub end: Seq,
}

/// Where a model call goes. An empty `provider` leaves the choice to the host.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Route {
    /// The provider's name, as the host knows it.
    pub provider: String,
    /// The model's name, as the provider knows it.
    pub model: String,
}

/// Tokens a provider reported for one call, in disjoint buckets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Usage {
    /// Input neither read from nor written to the provider's cache.
    pub input_tokens: u32,
    /// Output, reasoning included.
    pub output_tokens: u32,
    /// Input read from the provider's cache.
    pub cache_read_tokens: u32,
    /// Input written to the provider's cache.
    pub cache_write_tokens: u32,
}

/// A model's request to run a tool.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct ToolCall {
    /// Pairs the call with its result. Not trusted to be unique in a session.
    pub call_id: String,
    /// The tool's name.
    pub name: String,
    /// The arguments as the JSON text that the model produced.
    pub arguments: String,
}

/// An image by description: its bytes stay with the host.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Image {
    /// Media type, such as `image/png`.
    pub media_type: String,
    /// Size of the encoded image in bytes; 0 where the host does not know.
    pub byte_length: u32,
}

/// A block of a kind that this package does not know, as its JSON text.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Opaque {
    /// The block's type name.
    pub kind: String,
    /// The whole block as JavaScript's `JSON.stringify` prints it.
    pub json: String,
}

/// What a tool result can hold.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum ResultBlock {
    /// Plain text.
    Text(String),
    /// Reasoning, as where an agent answers as a tool.
    Reasoning(String),
    /// An image, by description.
    Image(Image),
    /// Anything else.
    Opaque(Opaque),
}

/// What a tool answered.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct ToolResult {
    /// The id of the call that this answers.
    pub call_id: String,
    /// Whether the tool reported a failure.
    pub is_error: bool,
    /// The answer, in order.
    pub content: Vec<ResultBlock>,
}

/// One block of a message.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum ContentBlock {
    /// Plain text.
    Text(String),
    /// Reasoning that the model made visible.
    Reasoning(String),
    /// A tool call; in assistant messages.
    ToolCall(ToolCall),
    /// A tool's answer; in messages that a model reads.
    ToolResult(ToolResult),
    /// An image, by description.
    Image(Image),
    /// Anything else.
    Opaque(Opaque),
}

contract_enum! {
    /// Who speaks in a message of the session prefix.
    Role {
        /// The user's side: the user, the harness, a tool.
        User,
        /// The model.
        Assistant,
    }
}

/// A message of the session prefix, which the host sends before the surface.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Message {
    /// Who speaks.
    pub role: Role,
    /// What is said.
    pub content: Vec<ContentBlock>,
}

/// Host-owned cancellation, polled between units of work.
pub trait AbortSignal {
    /// Whether the caller has given up. Once true, always true.
    fn aborted(&self) -> bool;
}
