//! Random documents whose end is known before they run: the state of each node follows from its parents'
//! states alone, and a task's failure from its node.

use punctual_domain::{
    name::Name,
    retry::RetryPolicy,
    schedule::TaskTemplate,
    workflow::{Definition, Join, Node, NodeState, OnFailure, SubWorkflow, Work},
};

const NODES_MAX: usize = 6;

#[derive(Clone, Debug)]
pub(super) struct Plan {
    pub(super) nodes: Vec<PlannedNode>,
}

#[derive(Clone, Debug)]
pub(super) struct PlannedNode {
    pub(super) parents: Vec<usize>,
    /// The number of parents that must hold.
    pub(super) need: usize,
    pub(super) kind: NodeKind,
    skips: bool,
    /// True if the node fails. The last item of a fan-out does.
    fails: bool,
    pub(super) goes_on: bool,
    pub(super) compensates: bool,
    delay_ms: Option<i64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NodeKind {
    Task,
    /// A fan-out of so many items.
    Each(u32),
    /// A workflow of two nodes, which succeeds.
    Workflow,
}

pub(super) fn name(text: &str) -> Name {
    Name::new(text).expect("a plain name")
}

pub(super) fn node_name(nth: usize) -> String {
    format!("n{nth}")
}

fn template(kind: &str) -> TaskTemplate {
    // A lease that ends while its executor's engine sleeps is no failure of the node.
    let retry = Some(RetryPolicy::Immediate {});
    TaskTemplate { max_attempts: Some(100), retry, ..TaskTemplate::new(name("sim"), name(kind)) }
}

impl Plan {
    pub(super) fn random(rng: &mut fastrand::Rng) -> Self {
        let count = rng.usize(1..=NODES_MAX);
        let nodes = (0..count).map(|nth| PlannedNode::random(rng, nth)).collect();
        Self { nodes }
    }

    pub(super) fn definition(&self) -> Definition {
        let nodes = self.nodes.iter().enumerate();
        let nodes = nodes.map(|(nth, node)| (name(&node_name(nth)), node.node())).collect();
        Definition { name: None, deadline_ms: None, nodes }
    }

    /// The end state of each node, if nothing ends the workflow before.
    pub(super) fn fates(&self) -> Vec<NodeState> {
        let mut fates: Vec<NodeState> = Vec::new();
        for node in &self.nodes {
            let holds = |parent: &&usize| match fates.get(**parent) {
                Some(NodeState::Succeeded) => true,
                Some(NodeState::Failed) => {
                    self.nodes.get(**parent).is_some_and(|planned_node| planned_node.goes_on)
                }
                _ => false,
            };
            let held = node.parents.iter().filter(holds).count();
            fates.push(match () {
                () if held < node.need || node.skips => NodeState::Skipped,
                () if node.fails => NodeState::Failed,
                () => NodeState::Succeeded,
            });
        }
        fates
    }

    pub(super) fn fails_for_good(&self) -> bool {
        self.fates().iter().zip(&self.nodes).any(|(fate, node)| *fate == NodeState::Failed && !node.goes_on)
    }

    /// True if an attempt of a node's task fails.
    pub(super) fn fails(&self, node: usize, item: Option<u32>) -> bool {
        self.nodes.get(node).is_some_and(|node| {
            let is_last = match node.kind {
                NodeKind::Each(items) => item == Some(items - 1),
                _ => true,
            };
            node.fails && is_last
        })
    }
}

impl PlannedNode {
    fn random(rng: &mut fastrand::Rng, nth: usize) -> Self {
        let parents: Vec<usize> = (0..nth).filter(|_| rng.u8(..3) == 0).collect();
        let need = match rng.u8(..3) {
            0 => parents.len().min(1),
            _ => parents.len(),
        };
        let kind = match rng.u8(..8) {
            0 | 1 => NodeKind::Each(rng.u32(1..4)),
            2 => NodeKind::Workflow,
            _ => NodeKind::Task,
        };
        let (skips, fails) = (rng.u8(..6) == 0, kind != NodeKind::Workflow && rng.u8(..6) == 0);
        let delay_ms = (kind != NodeKind::Workflow && rng.u8(..6) == 0).then(|| rng.i64(0..3_000));
        let (goes_on, compensates) = (rng.bool(), kind != NodeKind::Workflow && rng.bool());
        Self { parents, need, kind, skips, fails, goes_on, compensates, delay_ms }
    }

    fn node(&self) -> Node {
        let work = match self.kind {
            NodeKind::Workflow => {
                let second = Node { after: vec![name("x")], ..Node::task(template("k")) };
                let nodes =
                    [(name("x"), Node::task(template("k"))), (name("y"), second)].into_iter().collect();
                let definition = Definition { name: None, deadline_ms: None, nodes };
                Work::Workflow(Box::new(SubWorkflow { definition, input: None }))
            }
            _ => Work::Task(Box::new(template("k"))),
        };
        let items = |count: u32| format!("{:?}", (0..count).collect::<Vec<_>>());
        Node {
            after: self.parents.iter().map(|parent| name(&node_name(*parent))).collect(),
            join: match self.need {
                need if need == self.parents.len() => Join::All,
                need => Join::AtLeast(u32::try_from(need).unwrap_or(u32::MAX)),
            },
            when: self.skips.then(|| "1 > 2".to_owned()),
            for_each: if let NodeKind::Each(count) = self.kind { Some(items(count)) } else { None },
            on_failure: if self.goes_on { OnFailure::Continue } else { OnFailure::Fail },
            compensate: self.compensates.then(|| template("undo")),
            delay_ms: self.delay_ms,
            ..Node::new(work)
        }
    }
}
