//! Bindings of the contract in `wit/`.
#![allow(missing_docs)]

wasmtime::component::bindgen!({
    path: "../wit",
    world: "compactor",
    imports: { default: async | trappable },
    exports: { default: async },
    with: {
        "harness:compact/session.session": crate::imports::Session,
        "harness:compact/llm-stream.generation": crate::imports::Generation,
        "harness:compact/types.abort-signal": crate::imports::Signal,
    },
    require_store_data_send: true,
});
