//! What a check costs before each step, by the length of the session, and what a
//! compaction costs around the model call: of the component, in wasmtime.

use std::sync::Arc;

use conformance::{Build, Kind, Reply, ScriptedModel, SessionBuilder, create};
use criterion::{BatchSize, BenchmarkId, Criterion, criterion_group, criterion_main};
use futures_util::FutureExt;
use harness_compact_host::types::{AgentContext, Config, NowOptions};

fn session(turns: u32) -> SessionBuilder {
    let session = SessionBuilder::new("bench");
    session.turns(turns);
    session
}

fn compactor() -> Box<dyn Build> {
    let model = Arc::new(ScriptedModel::new([Reply::text("short")]));
    let created = create(Kind::Wasmtime, Config::default(), model, None);
    created
        .now_or_never()
        .expect("no waiting")
        .expect("the defaults are valid")
}

fn measure(compactor: &mut dyn Build, session: &SessionBuilder) {
    let (log, agent) = (session.session(), AgentContext::default());
    let call = compactor.measure(&log, &agent, "", &[]);
    call.now_or_never().expect("no waiting").expect("a figure");
}

/// One new event, in sessions of different lengths: it should cost the same.
fn check(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("a check after one more event");
    for turns in [100, 1_000, 10_000] {
        let (session, mut compactor) = (session(turns), compactor());
        measure(&mut *compactor, &session);
        let id = BenchmarkId::from_parameter(format!("{} events", turns * 4));
        group.bench_function(id, |bencher| {
            bencher.iter(|| {
                session.user("one more");
                measure(&mut *compactor, &session);
            });
        });
    }
    group.finish();
}

/// The first look at a session that is there already.
fn first_look(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("the first look");
    group.sample_size(10);
    for turns in [100, 1_000, 10_000] {
        let session = session(turns);
        let id = BenchmarkId::from_parameter(format!("{} events", turns * 4));
        group.bench_function(id, |bencher| {
            let fresh = || compactor();
            let look = |mut compactor: Box<dyn Build>| measure(&mut *compactor, &session);
            bencher.iter_batched(fresh, look, BatchSize::PerIteration);
        });
    }
    group.finish();
}

/// A compaction of all but the end, around a model that answers at once.
fn compaction(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("a compaction");
    group.sample_size(10);
    for turns in [100, 1_000] {
        let id = BenchmarkId::from_parameter(format!("{} events", turns * 4));
        group.bench_function(id, |bencher| {
            let fresh = || (session(turns), compactor());
            let compact = |(session, mut compactor): (SessionBuilder, Box<dyn Build>)| {
                let (log, agent) = (session.session(), AgentContext::default());
                let options = NowOptions::default();
                let call = compactor.compact_now(&log, &agent, &options, None);
                call.now_or_never().expect("no waiting").expect("no error")
            };
            bencher.iter_batched(fresh, compact, BatchSize::PerIteration);
        });
    }
    group.finish();
}

criterion_group!(benches, check, first_look, compaction);
criterion_main!(benches);
