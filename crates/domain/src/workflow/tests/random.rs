//! Random graphs, random outcomes, random order of ends, compared with a model without rows: the end state of
//! a node depends only on its parents.

use super::{Join, OnFailure, document, node};
use crate::{
    schedule::TaskTemplate,
    workflow::{
        Decision, Definition, End, Ending, Graph, Node, NodeKey, NodeState, Role, Run, WorkflowState,
    },
};
use proptest::prelude::*;

#[derive(Clone, Debug)]
struct RandomPlan {
    nodes: Vec<Random>,
}

#[derive(Clone, Debug)]
struct Random {
    /// Bit n: node n is a parent.
    parents: u16,
    join: u8,
    /// Skipped by its condition.
    skips: bool,
    fails: bool,
    goes_on: bool,
    compensates: bool,
    /// `None` if the node is not a fan-out.
    items: Option<u8>,
}

fn plans() -> impl Strategy<Value = RandomPlan> {
    let one = (
        any::<u16>(),
        0..3_u8,
        prop::bool::weighted(0.2),
        prop::bool::weighted(0.2),
        any::<bool>(),
        any::<bool>(),
        prop::option::weighted(0.3, 0..4_u8),
    );
    let random = one.prop_map(|(parents, join, skips, fails, goes_on, compensates, items)| Random {
        parents,
        join,
        skips,
        fails,
        goes_on,
        compensates,
        items,
    });
    prop::collection::vec(random, 1..10).prop_map(|nodes| RandomPlan { nodes })
}

const NAMES: [&str; 10] = ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j"];

impl RandomPlan {
    fn parents(&self, of: usize) -> Vec<usize> {
        (0..of).filter(|nth| self.nodes[of].parents >> nth & 1 == 1).collect()
    }

    fn need(&self, of: usize) -> usize {
        let parents = self.parents(of).len();
        match self.nodes[of].join {
            0 => parents,
            1 => parents.min(1),
            _ => parents.min(2),
        }
    }

    fn definition(&self) -> Definition {
        let nodes = self.nodes.iter().enumerate().map(|(nth, random)| {
            let after: Vec<&str> = self.parents(nth).into_iter().map(|parent| NAMES[parent]).collect();
            let join = match self.need(nth) {
                need if need == after.len() => Join::All,
                need => Join::AtLeast(u32::try_from(need).unwrap()),
            };
            let on_failure = if random.goes_on { OnFailure::Continue } else { OnFailure::Fail };
            let undo = || TaskTemplate::new(super::name("q"), super::name("undo"));
            let compensate = random.compensates.then(undo);
            (NAMES[nth], Node { join, on_failure, compensate, ..node(&after) })
        });
        document(nodes.collect())
    }

    /// The end state of each node, if nothing ends the workflow.
    fn fates(&self) -> Vec<NodeState> {
        let mut fates: Vec<NodeState> = Vec::new();
        for (nth, node) in self.nodes.iter().enumerate() {
            let holds = |parent: &usize| match fates[*parent] {
                NodeState::Succeeded => true,
                NodeState::Failed => self.nodes[*parent].goes_on,
                _ => false,
            };
            let held = self.parents(nth).iter().filter(|parent| holds(parent)).count();
            fates.push(match () {
                () if held < self.need(nth) || node.skips => NodeState::Skipped,
                () if node.fails && node.items != Some(0) => NodeState::Failed,
                () => NodeState::Succeeded,
            });
        }
        fates
    }

    fn fails_for_good(&self) -> bool {
        self.fates().iter().zip(&self.nodes).any(|(fate, node)| *fate == NodeState::Failed && !node.goes_on)
    }

    fn decision(&self, node: u32) -> Decision {
        let node = &self.nodes[usize::try_from(node).unwrap()];
        match node.items {
            _ if node.skips => Decision::Skip,
            None => Decision::Run,
            Some(items) => Decision::Each(u32::from(items)),
        }
    }

    /// If a fan-out fails, its last item fails.
    fn end(&self, key: &NodeKey) -> End {
        let node = &self.nodes[usize::try_from(key.node).unwrap()];
        let is_last = key.item.is_none_or(|item| Some(item + 1) == node.items.map(u32::from));
        if node.fails && is_last && key.role == Role::Action { End::Failed } else { End::Succeeded }
    }
}

fn go_on(plan: &RandomPlan, graph: &Graph, run: &mut Run) {
    loop {
        let ready = run.settle(graph);
        if ready.is_empty() {
            break;
        }
        for node in ready {
            run.decide(graph, node, plan.decision(node));
        }
    }
    run.finish(graph);
    assert!(run.adds_up(graph), "{run:?}");
}

/// Ends open rows, in the order given by `choices`. Returns the undone ones, in order.
fn driven(plan: &RandomPlan, graph: &Graph, run: &mut Run, choices: &[u8]) -> Vec<NodeKey> {
    let mut undone = Vec::new();
    go_on(plan, graph, run);
    for nth in 0.. {
        let open: Vec<NodeKey> = run.open().map(|pair| *pair.0).collect();
        if open.is_empty() {
            break;
        }
        assert!(nth < 1_000, "it comes to an end");
        let undoing = open.iter().filter(|key| key.role == Role::Compensation).count();
        assert!(undoing == 0 || (undoing == 1 && open.len() == 1), "one after the other, and nothing beside");
        let key = open[usize::from(choices[nth % choices.len()]) % open.len()];
        let attempt = run.row(&key).unwrap().attempt;
        let is_stopped = run.ending.is_some() && key.role == Role::Action;
        assert!(run.end(graph, key, attempt, if is_stopped { End::Cancelled } else { plan.end(&key) }));
        assert!(!run.end(graph, key, attempt, End::Succeeded), "it ends once");
        if key.role == Role::Compensation {
            undone.push(NodeKey { role: Role::Action, ..key });
        }
        go_on(plan, graph, run);
    }
    undone
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, ..ProptestConfig::default() })]

    #[test]
    fn the_order_of_ends_makes_no_difference(plan in plans(), choices in prop::collection::vec(any::<u8>(), 1..20)) {
        let graph = Graph::of(&plan.definition()).unwrap();
        let mut run = Run::default();
        driven(&plan, &graph, &mut run, &choices);
        prop_assert!(run.state.is_finished());
        if plan.fails_for_good() {
            prop_assert!(matches!(run.state, WorkflowState::Failed | WorkflowState::Compensated));
        } else {
            prop_assert_eq!(run.state, WorkflowState::Succeeded);
            for (nth, fate) in (0..).zip(plan.fates()) {
                prop_assert_eq!(run.state_of(nth), fate, "node {}", NAMES[usize::try_from(nth).unwrap()]);
            }
        }
    }

    #[test]
    fn all_that_was_done_is_undone_the_last_first(
        plan in plans(),
        choices in prop::collection::vec(any::<u8>(), 1..20),
        cancelled_after in 0..10_usize,
    ) {
        let graph = Graph::of(&plan.definition()).unwrap();
        let mut run = Run::default();
        go_on(&plan, &graph, &mut run);
        for choice in choices.iter().take(cancelled_after) {
            let open: Vec<NodeKey> = run.open().map(|pair| *pair.0).collect();
            let Some(key) = open.get(usize::from(*choice) % open.len().max(1)) else { break };
            let attempt = run.row(key).unwrap().attempt;
            run.end(&graph, *key, attempt, plan.end(key));
            go_on(&plan, &graph, &mut run);
        }
        let was_over = run.state.is_finished();
        run.ending(Ending::Cancelled);
        let undone = driven(&plan, &graph, &mut run, &choices);
        prop_assert!(run.state.is_finished());
        prop_assert!(run.open().next().is_none(), "nothing stays open");
        if was_over || run.state == WorkflowState::Succeeded {
            return Ok(());
        }
        let compensates = |key: &NodeKey| plan.nodes[usize::try_from(key.node).unwrap()].compensates;
        let mut done: Vec<(u64, NodeKey)> = run
            .rows()
            .iter()
            .filter(|(key, row)| {
                key.role == Role::Action && row.state == NodeState::Succeeded && row.items.is_none() && compensates(key)
            })
            .map(|(key, row)| (row.order.unwrap(), *key))
            .collect();
        done.sort_unstable();
        let wanted = done.iter().filter(|pair| run.row(&pair.1.undoing()).is_some()).count();
        prop_assert_eq!(wanted, done.len(), "each is undone");
        let order: Vec<u64> = undone.iter().map(|key| run.row(key).unwrap().order.unwrap()).collect();
        prop_assert!(order.windows(2).all(|pair| pair[0] > pair[1]), "{:?}", order);
        prop_assert_eq!(run.state == WorkflowState::Compensated, !done.is_empty());
    }

    #[test]
    fn a_retry_comes_to_the_same_end_as_if_nothing_had_failed(
        plan in plans(),
        choices in prop::collection::vec(any::<u8>(), 1..20),
    ) {
        let mut failing = plan;
        failing.nodes.iter_mut().for_each(|node| node.compensates = false);
        let graph = Graph::of(&failing.definition()).unwrap();
        let mut run = Run::default();
        driven(&failing, &graph, &mut run, &choices);
        if run.state != WorkflowState::Failed {
            return Ok(());
        }
        run.retry(&graph).unwrap();
        // Tasks that fail permanently succeed the second time.
        failing.nodes.iter_mut().filter(|node| !node.goes_on).for_each(|node| node.fails = false);
        driven(&failing, &graph, &mut run, &choices);
        prop_assert_eq!(run.state, WorkflowState::Succeeded);
        for (nth, fate) in (0..).zip(failing.fates()) {
            prop_assert_eq!(run.state_of(nth), fate, "node {}", NAMES[usize::try_from(nth).unwrap()]);
        }
    }
}
