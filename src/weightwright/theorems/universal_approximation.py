"""The theorems of the universal approximation paper and the checks that its summary asks for, in our words.

Tokens are rows here, columns in the paper. s is a number that is affine in a token; Range is truncation to [a, b];
dL = (b - a)/p is the spacing of p anchors.
"""

from __future__ import annotations

from weightwright.theorems.theorem import Theorem

_PAPER = "universal approximation paper"
_HERE = "weightwright.theorems"

UNIVERSAL = (
    Theorem(
        id="UA-1",
        title="softmax is nearly hardmax",
        statement="If the largest of n scores leads all others by a gap, softmax at inverse temperature beta differs"
        " from the one-hot vector by at most (n-1) e^(-beta gap). If only the third largest is a gap below the"
        " first, it differs as little, (n-2) e^(-beta gap), from the softmax of the two largest, tied or not.",
        source=f"{_PAPER}, Lemma F.1",
        repaired="The lemma bounds the largest entry, but every later proof sums over all keys: the 1-norm is given"
        " too, twice the tail mass. The tail is bounded by its exact worst case m q / (1 + (n-1) q), q = e^(-beta"
        " gap), so the beta for a given error is a little smaller than printed.",
        rate="e^(-beta gap)",
        expects="PROVEN",
        home=f"{_HERE}.linear.hardmax",
        small=f"{_HERE}.exhibits.hardmax_instances:small",
        studies=f"{_HERE}.exhibits.hardmax_instances:studies",
    ),
    Theorem(
        id="UA-2",
        title="one head, n truncated linear models",
        statement="One layer with one head and p anchors on [a, b] computes, for token i with its own w_i and t_i,"
        " Range(w_i . x_i + t_i) in the output row G(k_i), where k_i is the nearest anchor; the error is at most (b"
        " - a)/p for the anchors plus a softmax term that beta makes as small as wanted.",
        source=f"{_PAPER}, Theorem 3.4, Remark G.5, Corollary G.6",
        repaired="The printed W_Q and W_K both carry beta, which would square it: beta appears once, with scores"
        " -(beta/2)(s - L_k)². The softmax runs over p keys, so beta is taken with ln(p-2) and not with n. Its error"
        " is summed over the keys, so the 1-norm is used, times b - a where G is constant and max(b - a, |a|, |b|)"
        " where it is not. No anchor stands at b: the error there is a whole spacing, which the bound covers.",
        rate="1/p for the paper's anchors; ours falls exponentially in p inside [a, b]",
        expects="PROVEN",
        home=f"{_HERE}.linear.one_head",
        small=f"{_HERE}.exhibits.linear_instances:one_head",
        studies=f"{_HERE}.exhibits.linear_instances:one_head_studies",
    ),
    Theorem(
        id="UA-3",
        title="H heads share the anchors",
        statement="H heads of n keys each, n-2 anchors and two sentinels, compute n truncated linear models of one w"
        " and t with an error of (b - a)/((n-2) H) plus a softmax term. Token-wise maps and a position code are"
        " enough.",
        source=f"{_PAPER}, Theorem 3.9, Lemma G.7",
        repaired="As printed both sentinels have the value 0, so the layer returns 0 for s below a or above b: the"
        " first head's lower sentinel carries a and the last head's upper one b. The anchor below the first is set"
        " to a - dL. No beta is given: it is chosen by UA-1 in the 1-norm.",
        rate="1/H at a fixed number of tokens, 1/((n-2) H) in all",
        expects="PROVEN",
        home=f"{_HERE}.linear.shared_anchors",
        small=f"{_HERE}.exhibits.linear_instances:shared_anchors",
        studies=f"{_HERE}.exhibits.linear_instances:shared_anchors_studies",
    ),
    Theorem(
        id="UA-4",
        title="bumps on a grid as a ReLU network",
        statement="A continuous function on [-B, B]^N is approximated in L_p by a two-layer ReLU network that has a"
        " bump on each of g^N cells, 1 inside and 0 outside but for a margin of relative width delta, times the"
        " value at the cell's centre.",
        source=f"{_PAPER}, Lemma 3.11",
        repaired="The volume of the margins, where nothing is claimed pointwise, is (2B)^N (1 - (1-delta)^N).",
        rate="L_1 error 1/g for a Lipschitz function with delta = g^-2",
        expects="PROVEN",
        home=f"{_HERE}.grids.bumps",
        small=f"{_HERE}.exhibits.grid_instances:bumps",
        studies=f"{_HERE}.exhibits.grid_instances:bumps_studies",
    ),
    Theorem(
        id="UA-5",
        title="sequence to scalar, two layers",
        statement="A first layer with 2d heads for each of g^(dn) grid points computes the bumps of UA-4 as sums of"
        " truncated linear models; a second layer with one head looks up the function's value at the point whose"
        " bump is largest. The error in L_p is as small as wanted.",
        source=f"{_PAPER}, Lemma 3.12, Lemma G.14",
        repaired="The bump's heads lack a shift: Range((g (x - v)/B + 1)/delta) on [0, 1] and its mirror are built."
        " Lemma G.14 is derived again from its use: a head that puts a sum over tokens into one chosen token. The"
        " second softmax sees its argument with the heads' errors, so its beta is chosen for a gap of 1 - 4 d e0."
        " The looked-up value is read from one token; summing them would count it once for each grid point.",
        rate="L_1 error 1/g, cost g^(dn)",
        expects="PROVEN",
        home=f"{_HERE}.grids.grid_lookup",
        small=f"{_HERE}.exhibits.grid_instances:to_scalar",
        studies=f"{_HERE}.exhibits.grid_instances:to_scalar_studies",
    ),
    Theorem(
        id="UA-6",
        title="sequence to scalar, one layer and a softmax",
        statement="The lookup of UA-5 is itself a softmax over the bumps followed by a linear map: one attention"
        " layer, a softmax and a linear map are enough.",
        source=f"{_PAPER}, Lemma 3.13",
        repaired="As for UA-5: the shift of the bumps, and beta of the last softmax by the gap that the heads'"
        " errors leave.",
        rate="L_1 error 1/g, cost g^(dn)",
        expects="PROVEN",
        home=f"{_HERE}.grids.grid_lookup",
        small=f"{_HERE}.exhibits.grid_instances:to_scalar_by_softmax",
    ),
    Theorem(
        id="UA-7",
        title="sequence to sequence, two layers, or one and a softmax",
        statement="All d n entries of a continuous map of sequences share the first layer of UA-5; d n lookups side"
        " by side in the second layer, each writing its entry, approximate the map in L_p. The same holds with one"
        " layer and a softmax.",
        source=f"{_PAPER}, Theorem 3.14, Corollary 3.15",
        repaired="As for UA-5; each lookup is read once instead of being summed over all grid points.",
        rate="L_1 error 1/g, cost g^(dn)",
        expects="PROVEN",
        home=f"{_HERE}.grids.grid_lookup",
        small=f"{_HERE}.exhibits.grid_instances:to_sequence",
        studies=f"{_HERE}.exhibits.grid_instances:to_sequence_studies",
    ),
    Theorem(
        id="UA-8",
        title="sequence to sequence in the infinity norm",
        statement="Two multi-head layers approximate a continuous map of sequences uniformly: the first computes"
        " affine forms of the whole sequence, the second their truncations, which are the hidden units of a ReLU"
        " network.",
        source=f"{_PAPER}, Theorem F.2, Theorem G.22",
        repaired="The Lipschitz argument for the second layer has a factor that grows faster than p. Instead: the"
        " second layer is within e2 of Range for every argument, and Range is 1-Lipschitz. The ReLU network, which"
        " the proof takes from an existence theorem, is built: exactly for max and sort, as plane waves with a"
        " proven error for smooth functions, or given by the user.",
        rate="as the ReLU network; 1/p for the paper's heads",
        expects="PROVEN",
        home=f"{_HERE}.relu.emulated",
        small=f"{_HERE}.exhibits.relu_instances:infinity_norm",
    ),
    Theorem(
        id="UA-9",
        title="attention mixes tokens linearly",
        statement="One layer computes X -> R X A for a fixed matrix R on the tokens and A on the features: scores"
        " that are logarithms of R's entries, and a padding token that takes the rest of the weight.",
        source=f"{_PAPER}, Lemma I.1",
        repaired="The lemma needs every entry of R to be positive, and is later used with zeros. R = (R+ + c) - (R-"
        " + c) with c > 0 and two heads takes any R, without a mask.",
        rate="exact, up to rounding",
        expects="PROVEN",
        home=f"{_HERE}.relu.token_mixing",
        small=f"{_HERE}.exhibits.relu_instances:mixing",
    ),
    Theorem(
        id="UA-10",
        title="sequence to sequence for a plain Transformer",
        statement="Attention layers with token-wise maps and a position code alone compute any ReLU network of the"
        " flattened sequence: affine forms of the tokens, their mixing, then the ReLUs and the last linear map.",
        source=f"{_PAPER}, Theorem I.2",
        repaired="A token-wise map cannot give each position its own weights: a position-gated copy head for each"
        " token does, and mixes as well, so the counts differ. Where an output weight is negative the printed last"
        " layer ties with its padding and returns half of the value: the sign goes into the values, one head for"
        " each unit. UA-9's mixing has no zeros to take logarithms of.",
        rate="as the ReLU network",
        expects="PROVEN",
        home=f"{_HERE}.relu.native",
        small=f"{_HERE}.exhibits.relu_instances:native",
        studies=f"{_HERE}.exhibits.relu_instances:native_studies",
    ),
    Theorem(
        id="UA-11",
        title="truncated linear models in context",
        statement="With w_i and t_i in the prompt beside x_i, one head with p anchors on [a, b] computes Range(w_i ."
        " x_i + t_i) for every token; the error is at most (b - a)/p for the anchors plus a softmax term.",
        source=f"{_PAPER}, Theorem D.1 (G.25), Remark G.24",
        repaired="beta is taken with ln(p-2), since the softmax runs over p keys. The printed keys k w are shared by"
        " all queries x_i, so that w must be one vector; here w_i is the query and the keys L_k x_i stand in a block"
        " of sample i's own. The values are multiples of (1, 0, ..., 0), which stands in the prompt.",
        rate="1/p for the paper's anchors; ours falls exponentially in the keys",
        expects="PROVEN",
        home=f"{_HERE}.descent.truncated",
        small=f"{_HERE}.exhibits.prompt_instances:truncated",
        studies=f"{_HERE}.exhibits.prompt_instances:truncated_studies",
    ),
    Theorem(
        id="UA-12",
        title="gradient descent in context for any loss of (w·x, y)",
        statement="For a continuously differentiable loss l(w . x, y) and bounded samples in the prompt, attention"
        " turns w into w - eta sum_i grad l(w . x_i, y_i) within any error; stacked, that is gradient descent.",
        source=f"{_PAPER}, Theorem 4.2 (D.4), Appendix G.10",
        repaired="The proof approximates each coordinate l'(w . x, y) x_r by a ReLU network of (w . x, y), of which it"
        " is no function. Instead anchors in two dimensions have the values l'(a_j, b_j) u_i, one head for all"
        " coordinates. The logistic loss in margin form takes two keys, which are exact.",
        rate="dL, so one over the root of the number of keys, for a grid; ours falls faster than any power",
        expects="PROVEN",
        home=f"{_HERE}.descent.pairs",
        small=f"{_HERE}.exhibits.prompt_instances:pairs",
        studies=f"{_HERE}.exhibits.prompt_instances:pairs_studies",
    ),
    Theorem(
        id="UA-13",
        title="ReLU, hard tanh and clipped ReLU",
        statement="Truncated linear models contain the piecewise linear activations: hard tanh is Range on [-1, 1],"
        " clipped ReLU is Range on [0, b], and ReLU is the latter on every domain that stays below b.",
        source=f"{_PAPER}, Examples H.1-H.3",
        repaired="Nothing. ReLU is the limit of a growing b in the text; on a bounded domain b is its upper end.",
        rate="as UA-2",
        expects="PROVEN",
        home=f"{_HERE}.linear.activations",
        small=f"{_HERE}.exhibits.linear_instances:activations",
    ),
    Theorem(
        id="UA-14",
        title="how many heads and parameters",
        statement="2 d g^(dn) + 1 heads for a scalar and 2 d g^(dn) + d n for a sequence, O(d n g^(2dn)) parameters;"
        " for UA-10 O(N) heads and O(n² N²) parameters with N hidden units.",
        source=f"{_PAPER}, Remark E.1",
        repaired="The remark gives orders. Every construction here has an exact formula, compared with what was"
        " built, and the ratio to the paper's order is printed.",
        rate="equality of formula and built network",
        expects="MEASURED",
        home=f"{_HERE}.all_counts",
        small=f"{_HERE}.all_counts:small",
    ),
)

SUMMARY = (
    Theorem(
        id="SU-1",
        title="error against beta, and where rounding takes over",
        statement="The error of p anchors that pick the nearest falls with beta until the spacing of the anchors is"
        " all that is left. In exact arithmetic it is at most dL + (b - a) times the tail mass of UA-1, for every"
        " beta. In a floating-point format a score is off by about L² units of roundoff; where that exceeds the lead"
        " dL²/2 of the nearest anchor, wrong ones are picked, and no beta helps.",
        source="the summary, next check 1",
        repaired="Nothing; the summary asks for beta = 10 to 1000, the study goes to 1e8 in three formats.",
        rate="beta^(-1/2) at the ends, then flat at dL; in coarse formats flat above it",
        expects="PROVEN",
        home=f"{_HERE}.studies.beta_study",
        small=f"{_HERE}.studies.beta_study:small",
        studies=f"{_HERE}.studies.beta_study:studies",
    ),
    Theorem(
        id="SU-2",
        title="at and beyond the ends, and at the seams",
        statement="At s = a and b, half a spacing inside and outside of b, ten widths below a, and where the anchors"
        " of two heads meet, the networks of UA-2 and UA-3 stay within their bounds of Range.",
        source="the summary, next check 2",
        repaired="Holds for UA-3 only with the repaired sentinels.",
        rate="no place is worse than the bound",
        expects="PROVEN",
        home=f"{_HERE}.studies.ends_study",
        small=f"{_HERE}.studies.ends_study:small",
        studies=f"{_HERE}.studies.ends_study:studies",
    ),
    Theorem(
        id="SU-3",
        title="a thousand and ten thousand tokens",
        statement="Sequences of 1,000 and 10,000 tokens with p = n + 1 anchors: the error falls as 1/n, time and"
        " memory grow as n p; with our anchors, whose number does not depend on n, they grow as n.",
        source="the summary, next check 3",
        repaired="Nothing.",
        rate="1/n for the paper's anchors; seconds in proportion to n p",
        expects="PROVEN",
        home=f"{_HERE}.studies.length_study",
        small=f"{_HERE}.studies.length_study:small",
        studies=f"{_HERE}.studies.length_study:studies",
    ),
)
