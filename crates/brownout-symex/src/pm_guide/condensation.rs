//! A graph with its cycles collapsed: strongly connected components, found by Tarjan's algorithm.

/// The components of a graph. What a component leads to has lower numbers.
pub(super) struct Condensation {
    /// The component of each node.
    components: Vec<u32>,
    count: usize,
    /// Edges between different components, in the order of the component that they leave.
    edges: Vec<(u32, u32)>,
}

const UNSEEN: u32 = u32::MAX;

impl Condensation {
    pub fn of(count: usize, edges: &[(u32, u32)]) -> Self {
        let (starts, targets) = by_source(count, edges);
        let (components, number) = components(&starts, &targets);
        let mut between: Vec<(u32, u32)> = { edges.iter() }
            .map(|&(from, to)| (components[from as usize], components[to as usize]))
            .filter(|(from, to)| from != to)
            .collect();
        between.sort_unstable();
        between.dedup();
        Self {
            components,
            count: number,
            edges: between,
        }
    }

    /// For each node, the weight of its component and of the heaviest path from it on.
    pub fn heaviest_paths(&self, weights: &[u64]) -> Vec<u64> {
        let mut own = vec![0u64; self.count];
        for (&component, &weight) in self.components.iter().zip(weights) {
            own[component as usize] += weight;
        }
        let mut edges = self.edges.iter().peekable();
        for component in 0..self.count {
            let mut best = 0;
            while let Some(&(_, to)) = edges.next_if(|edge| edge.0 as usize == component) {
                best = best.max(own[to as usize]);
            }
            own[component] += best;
        }
        self.components.iter().map(|&it| own[it as usize]).collect()
    }
}

/// The targets of all edges, and where those of each node begin.
fn by_source(count: usize, edges: &[(u32, u32)]) -> (Vec<usize>, Vec<u32>) {
    let mut starts = vec![0; count + 1];
    edges
        .iter()
        .for_each(|edge| starts[edge.0 as usize + 1] += 1);
    for node in 0..count {
        starts[node + 1] += starts[node];
    }
    let mut next = starts.clone();
    let mut targets = vec![0; edges.len()];
    for &(from, to) in edges {
        targets[next[from as usize]] = to;
        next[from as usize] += 1;
    }
    (starts, targets)
}

/// The component of each node, and how many there are.
fn components(starts: &[usize], targets: &[u32]) -> (Vec<u32>, usize) {
    let count = starts.len() - 1;
    let mut components = vec![UNSEEN; count];
    let (mut index, mut low) = (vec![UNSEEN; count], vec![0u32; count]);
    let (mut next, mut number, mut open) = (0u32, 0u32, Vec::new());
    // Without recursion: a path through the graph can be as long as the program.
    let mut work: Vec<(u32, usize)> = Vec::new();
    for root in 0..count as u32 {
        if index[root as usize] != UNSEEN {
            continue;
        }
        work.push((root, starts[root as usize]));
        while let Some((node, edge)) = work.last_mut() {
            let at = *node as usize;
            if index[at] == UNSEEN {
                (index[at], low[at]) = (next, next);
                next += 1;
                open.push(*node);
            }
            if *edge < starts[at + 1] {
                let successor = targets[*edge];
                *edge += 1;
                let to = successor as usize;
                if index[to] == UNSEEN {
                    work.push((successor, starts[to]));
                } else if components[to] == UNSEEN {
                    low[at] = low[at].min(index[to]);
                }
                continue;
            }
            work.pop();
            if let Some((parent, _)) = work.last() {
                let parent = *parent as usize;
                low[parent] = low[parent].min(low[at]);
            }
            if low[at] == index[at] {
                while let Some(member) = open.pop() {
                    components[member as usize] = number;
                    if member as usize == at {
                        break;
                    }
                }
                number += 1;
            }
        }
    }
    (components, number as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cycle_is_one_component_and_leads_to_what_its_members_lead_to() {
        // 0 → 1 ⇄ 2 → 3, 0 → 4
        let edges = [(0, 1), (1, 2), (2, 1), (2, 3), (0, 4)];
        let condensation = Condensation::of(5, &edges);
        let paths = condensation.heaviest_paths(&[1, 10, 100, 1000, 5000]);
        assert_eq!(paths, [5001, 1110, 1110, 1000, 5000]);
    }

    #[test]
    fn a_long_chain_needs_no_stack() {
        let count = 1_000_000;
        let edges: Vec<(u32, u32)> = (0..count - 1).map(|node| (node, node + 1)).collect();
        let condensation = Condensation::of(count as usize, &edges);
        assert_eq!(
            condensation.heaviest_paths(&vec![1; count as usize])[0],
            u64::from(count)
        );
    }
}
