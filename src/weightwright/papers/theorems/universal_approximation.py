"""The theorems of the universal approximation paper and the checks that its summary asks for, in our words.

Tokens are rows here, columns in the paper. s is a number that is affine in a token; Range is truncation to [a, b];
dL = (b - a)/p is the spacing of p anchors.
"""

from __future__ import annotations

from weightwright.papers.theorems.theorem import Theorem

_PAPER = "universal approximation paper"
_HERE = "weightwright.papers"

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
        repaired="w_i . x_i + t_i is computed by the linear map before the layer, which scales the features of every"
        " position by w_i: the head is given s and compares it with the anchors. In the printed proof queries"
        " are x and keys k w, so that the scores hold the product, of one w for all tokens.\n"
        "Where G is not constant the result jumps from one output row to another half way between two"
        " anchors. Within dead_zone of such a place nothing is claimed (an eighth of the spacing unless"
        " given; net.certificate.assumptions has each interval), and beta grows with 1/dead_zone. That is the"
        ' proof\'s case (i), which leaves out "an arbitrarily small volume"; with a constant G, case (ii),'
        " nothing is left out.\n"
        "The printed W_Q and W_K both carry beta, which would square it: beta appears once, with scores"
        " -(beta/2)(s - L_k)².\n"
        "The softmax runs over p keys: beta is taken with ln(p-2), as Theorem 3.4 has it, and not with n, as"
        " its restatement G.2 and (G.10) have it.\n"
        "The error of the softmax is summed over the keys, so the 1-norm is used, times b - a where G is"
        " constant and max(b - a, |a|, |b|) where it is not.\n"
        "No anchor stands at b: the error there is a whole spacing, which the bound covers.",
        rate="1/p for the paper's anchors; ours falls exponentially in p inside [a, b]",
        expects="PROVEN",
        home=f"{_HERE}.linear.one_head",
        small=f"{_HERE}.exhibits.linear_instances:one_head",
        studies=f"{_HERE}.exhibits.linear_instances:one_head_studies",
    ),
    Theorem(
        id="UA-3",
        title="H heads share the anchors",
        statement="H heads of n keys each, n-2 anchors and two sentinels, compute n truncated linear models of one w,"
        " with a t_i for every token, with an error of (b - a)/((n-2) H) plus a softmax term. Token-wise maps"
        " and a position code are enough.",
        source=f"{_PAPER}, Theorem 3.9, Lemma G.7",
        repaired="One w for all tokens; the shift t_i of every token stands in the position code. A token-wise map"
        " cannot give each position a w_i of its own: `truncated_linear_heads` takes them, but its embedding"
        " then scales positions, and no plain Transformer loads it (net.network.native is False).\n"
        "As printed both sentinels have the value 0, so the layer returns 0 for s below a, for s above b, and"
        " inside [a, b] beyond b - dL/2: the first head's lower sentinel carries a and the last head's upper"
        " one b.\n"
        "The anchor below the first is set to a - dL, which the text does not define. No beta is given: it is"
        " chosen by UA-1 in the 1-norm.",
        rate="1/H at a fixed number of tokens, 1/(n-2) at a fixed number of heads",
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
        repaired="What a bound is worth: it stands beside the norm of the target itself, an estimate; where it is not"
        " below that, returning 0 is as near, and the network's notes say that nothing is claimed. For the"
        " functions of the study below it is below up to n d = 5 numbers; from 6 on the cells that it would"
        " take are more than max_cells = 20,000.\n"
        "delta is not chosen in the text: g^-2, and an 8th of that for every number beyond two, so that the"
        " shells cost less than the cores.\n"
        "The volume of the margins, where nothing is claimed pointwise, is (2B)^N (1 - (1-delta)^N), printed"
        " without the 2.",
        rate="L_1 error 1/g for a Lipschitz function with delta = g^-2 or less",
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
        repaired="What a bound is worth: as for UA-4. Within max_heads = 4,096 heads it is below the norm of the"
        " study's targets up to n d = 4 numbers; from 5 on nothing is claimed.\n"
        "The bump's heads lack a shift: Range((g (x - v)/B + 1)/delta) on [0, 1] and its mirror are built.\n"
        "Lemma G.14 is derived again from its use: a head that puts a sum over tokens into one chosen token.\n"
        "The second softmax sees its argument with the heads' errors, so its beta is chosen for a gap of 1 -"
        " 4 n d e0.\n"
        "The looked-up value is read from one token; summing them would count it once for each grid point.",
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
        repaired="As for UA-5: what a bound is worth, the shift of the bumps, and beta of the last softmax by the gap"
        " that the heads' errors leave.",
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
        repaired="As for UA-5, what a bound is worth included; each lookup is read once instead of being summed over"
        " all grid points.",
        rate="L_1 error 1/g, cost g^(dn)",
        expects="PROVEN",
        home=f"{_HERE}.grids.grid_lookup",
        small=f"{_HERE}.exhibits.grid_instances:to_sequence",
        studies=f"{_HERE}.exhibits.grid_instances:to_sequence_studies",
    ),
    Theorem(
        id="UA-8",
        title="sequence to sequence in the infinity norm",
        statement="Two multi-head layers approximate a continuous map of sequences uniformly: the first computes affine"
        " forms of the whole sequence, the second their truncations, which are the hidden units of a ReLU"
        " network with one hidden layer.",
        source=f"{_PAPER}, Theorem F.2, Theorem G.22",
        repaired="Which functions: the proof takes the ReLU network from an existence theorem; here it is built."
        " Exactly for one level of kinks, that is for sums of max, min, abs, relu and clip of affine"
        " functions, so for sorting two tokens. By plane waves with a proven error for smooth functions of up"
        " to four numbers. Or it is given, trained or not.\n"
        "Not exactly, and not by plane waves: kinks of kinks along several directions, like the largest of"
        " three numbers. Sorting three tokens is refused with a ToleranceError; give a ReLU network that is"
        " near to it.\n"
        "The Lipschitz argument for the second layer has a factor that grows faster than p. Instead: the"
        " second layer is within e2 of Range for every argument, and Range is 1-Lipschitz.",
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
        repaired="Which functions: the theorem speaks of every continuous one and takes a ReLU network for it from an"
        " existence theorem. Here the target is a ReLU network, or formulas for which UA-8's finder builds"
        " one: exactly for one level of kinks, by plane waves for smooth functions of up to four numbers.\n"
        "A token-wise map cannot give each position its own weights: a position-gated copy head for each"
        " token does, and mixes as well: two layers and not three, so the counts differ.\n"
        "Where an output weight is negative the printed last layer ties with its padding and returns half of"
        " the value: the sign goes into the values, one head for each unit.\n"
        "UA-9's mixing has no zeros to take logarithms of.",
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
        " is no function. Instead anchors in two dimensions have the values l'(a_j, b_j) u_i, one head for"
        " all coordinates.\n"
        "(G.66) sums ReLUs without output weights, which is convex and never negative: the slope of the"
        " squared loss is neither. The anchors' values have both signs. Range[0, B_R B_1²] is too small for"
        " the sum of three terms that it truncates; no such range is needed.\n"
        "The sum over the samples in Theorem 4.2 is a mean in G.26: u_i = eta x_i or eta x_i / n in the"
        " prompt gives either.\n"
        "The grid takes a tol, or P: the bound falls as 1/P, and up to 16 spacings along each axis are"
        " proven, in seconds to half a minute. A tol below that is refused with the best bound; the spectral"
        " form goes on.\n"
        "The logistic loss in margin form takes two keys, which are exact.",
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
        repaired="The remark gives orders. Every construction here has an exact formula, compared with what was built,"
        " and the ratio to the paper's order is printed, with the constant 1.\n"
        "For UA-10 the order's N is the number of units of one token: the proof has one output for each token"
        " and unit weights, so a network of m units and d_o outputs has N = m d_o.\n"
        "Remark E.2 would count learnable parameters apart from those that are fixed as 0 and 1 and leaves it"
        ' open: both counts of every network are here, "learnable" and "fixed".',
        rate="equality of formula and built network",
        expects="MEASURED",
        home=f"{_HERE}.theorems.all_counts",
        small=f"{_HERE}.theorems.all_counts:small",
    ),
    Theorem(
        id="UA-15",
        title="H heads of few keys inside UA-8, and shorter inputs",
        statement="Theorem 3.9 may stand in the place of Theorem 3.4 in all later proofs: every truncation of UA-8 by H"
        " heads of few keys that share the anchors. A shorter input is padded with zero tokens, which the"
        " outputs of the others do not notice.",
        source=f"{_PAPER}, appendix B, Remark G.3",
        repaired="Built inside UA-8 (`relu_network(..., keys=...)`). Not inside UA-5 to UA-7: the checker's rule for"
        " grids knows one head for each ramp.\n"
        "The keys stand on registers, as in UA-8, and not on the n tokens: a head has as many keys as are"
        " asked for.\n"
        "Padding is shown for UA-3, whose outputs depend on their own tokens alone; the domain must hold 0."
        " UA-5 to UA-8 are functions of all tokens: zeros are tokens like others there.",
        rate="1/(keys - 2) at a fixed number of heads, as UA-3",
        expects="PROVEN",
        home=f"{_HERE}.relu.emulated",
        small=f"{_HERE}.exhibits.relu_instances:shared_keys",
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
        home=f"{_HERE}.rates.beta_study",
        small=f"{_HERE}.rates.beta_study:small",
        studies=f"{_HERE}.rates.beta_study:studies",
    ),
    Theorem(
        id="SU-2",
        title="at and beyond the ends, at the seams, and near sharp places",
        statement="At s = a and b, half a spacing inside and outside of b, ten widths below a, and where the anchors of"
        " two heads meet, the networks of UA-2 and UA-3 stay within their bounds of Range. The anchors' error"
        " of a target that is steep near an end is at most its slope there times the spacing, and never more"
        " than its height; of one that jumps it is as small as wanted outside of a dead zone.",
        source="the summary, next check 2",
        repaired="Holds for UA-3 only with the repaired sentinels.\n"
        "The summary asks for targets with sharp transitions or jumps near the ends: ramps of slope 1 to"
        " 1,000 and a jump, a tenth of the width before b. Around a jump nothing can be within less than half"
        " of it, so a dead zone is left out, and beta grows with one over it.",
        rate="no place is worse than the bound",
        expects="PROVEN",
        home=f"{_HERE}.rates.ends_study",
        small=f"{_HERE}.rates.ends_study:small",
        studies=f"{_HERE}.rates.ends_study:studies",
    ),
    Theorem(
        id="SU-3",
        title="a thousand and ten thousand tokens, ten and fifty features",
        statement="Sequences of 1,000 and 10,000 tokens with p = n + 1 anchors: the error falls as 1/n, time and"
        " memory grow as n p; with our anchors, whose number does not depend on n, they grow as n.",
        source="the summary, next check 3",
        repaired="Nothing is repaired. The summary also asks for higher-dimensional inputs: d = 10 and 50 features,"
        " and a model w_i, t_i for every token, by UA-2 itself, whose keys are p tokens inside.",
        rate="1/n for the paper's anchors; seconds in proportion to n p",
        expects="PROVEN",
        home=f"{_HERE}.rates.length_study",
        small=f"{_HERE}.rates.length_study:small",
        studies=f"{_HERE}.rates.length_study:studies",
    ),
    Theorem(
        id="SU-4",
        title="signatures of failure",
        statement="A network whose attention should pick shows when it fails: diffuse weights where beta is too small,"
        " errors that spike at the ends of the domain, outputs that drift between anchors instead of snapping to one.",
        source="the summary, failure signatures",
        repaired="Made measurable, with thresholds of ours: uniform from 0.9 of the largest entropy on; drift where"
        " more than a quarter of the queries gives no key 0.9 of its weight; artefacts where errors within 5"
        " per cent of an end are above three times those inside.\n"
        "`ww.diagnose` measures on inputs that it is given and proves nothing. Fitted heads are soft on"
        " purpose: they drift, and their certificates hold.",
        rate="each signature where it was brought about, and nowhere else",
        expects="MEASURED",
        home=f"{_HERE}.rates.signatures_study",
        small=f"{_HERE}.rates.signatures_study:small",
    ),
)
