"""The theorems of the in-context algorithm emulation paper, in our words.

Tokens are rows here, columns in the paper. A prompt has a token for each sample: x_i, y_i and the state w; u_i is eta
x_i / n, P + 1 the number of anchors, dL their spacing.

The theorems about Hopfield layers of the paper on in-context algorithm emulation, in our words.

Patterns are rows here, columns in the paper.
"""

from __future__ import annotations

from weightwright.papers.theorems.theorem import Theorem

_PAPER = "in-context algorithm emulation paper"
_HERE = "weightwright.papers"
_RUN = f"{_HERE}.exhibits.descent_instances"

EMULATION = (
    Theorem(
        id="AE-1",
        title="one head, f(w·x - y) x for every sample",
        statement="One head with P + 1 anchors on the range of w . x - y, values f(L_j) x_i, returns f(w . x_i - y_i)"
        " x_i for every sample of the prompt, with an error of dL times the slope of f, plus a softmax term.",
        source=f"{_PAPER}, Theorem 3.1 (D.2), Definition D.3",
        repaired="P, beta and C are 'large enough' in the proof: P and beta follow from the tolerance. The constant C"
        " that keeps other samples' keys away is printed as half of what its footnote derives; here a sample sees its"
        " own block of keys, and there is no C. That also makes n² (P + 1) scores n (P + 1).",
        rate="1/P for the paper's anchors; ours falls exponentially in the keys",
        expects="PROVEN",
        home=f"{_HERE}.descent.gradients",
        small=f"{_HERE}.exhibits.gradient_instances:gradients",
        studies=f"{_HERE}.exhibits.gradient_instances:gradients_studies",
    ),
    Theorem(
        id="AE-2",
        title="every sample's gradient",
        statement="With f = l' the head of AE-1 returns the gradient l'(w . x_i - y_i) x_i of any differentiable loss,"
        " for all samples at once.",
        source=f"{_PAPER}, Corollary 3.1.1",
        repaired="As for AE-1. Huber's and other losses whose derivative has kinks are given by that derivative.",
        rate="as AE-1",
        expects="PROVEN",
        home=f"{_HERE}.descent.gradients",
        small=f"{_HERE}.exhibits.gradient_instances:of_a_loss",
    ),
    Theorem(
        id="AE-3",
        title="one step of gradient descent",
        statement="The gradients of AE-2 added up over the samples turn w into w - eta/n sum_i l'(w . x_i - y_i) x_i.",
        source=f"{_PAPER}, Corollary 3.1.2 (D.2.1)",
        repaired="Nothing in the text puts w into the output columns: the residual stream carries it. The step stands"
        " in the prompt, as u_i = eta x_i / n beside x_i.",
        rate="as AE-1, times the sum of all |u_i|",
        expects="PROVEN",
        home=f"{_HERE}.descent.steps",
        small=f"{_HERE}.exhibits.gradient_instances:one_step",
    ),
    Theorem(
        id="AE-4",
        title="many steps, stacked or looped",
        statement="For a convex loss with a smooth gradient and eta <= 2/L_f, L passes through the layers of AE-3 are"
        " within t sqrt(d) e of exact gradient descent after t steps, e the error of one step; the layers may be the"
        " same ones again.",
        source=f"{_PAPER}, Example 2, Lemma D.4",
        repaired="The step error is in the infinity norm and the lemma's in the 2-norm: hence sqrt(d). L layers, not L"
        " + 1.\n"
        "The lemma says that all states stay within R/2 + L e for R = 2 |w*|; a step of up to 2/L_f may lead"
        " to R itself, so R >= 2 |w*| + L sqrt(d) e is asked for.\n"
        "Any number n of samples; where n is no power of two, u_i = eta x_i / n is rounded, and e counts it."
        " The step eta is a power of two here. For other losses, steps, momentum, and for data of your own:"
        " `ww.incontext.Descent`, whose networks these are.",
        rate="t, at most",
        expects="PROVEN",
        home=f"{_HERE}.descent.steps",
        small=f"{_RUN}:many_steps",
        studies=f"{_RUN}:many_steps_studies",
    ),
    Theorem(
        id="AE-5",
        title="linear regression in context",
        statement="Steps of AE-4 for the squared loss come as near as wanted to the least squares solution of the"
        " samples in the prompt.",
        source=f"{_PAPER}, Corollary 3.1.3 (Theorem D.3), Corollary D.1.1",
        repaired="Stated for one layer, proved with L steps: depth L. Both errors are given, to the exact iterate and"
        " to the optimum; the second needs columns that do not depend on each other.\n"
        "Any number of samples. `ww.incontext.LinearRegression` fits data as they come, dependent columns"
        " included, with a proven distance to the optimum.",
        rate="e^(-t/(2 kappa)) to the optimum, kappa = 1/(eta mu)",
        expects="PROVEN",
        home=f"{_HERE}.descent.steps",
        small=f"{_RUN}:regression",
        studies=f"{_RUN}:regression_studies",
    ),
    Theorem(
        id="AE-6",
        title="ridge regression in context",
        statement="With the factor 1 - eta lambda on w the same steps lead to the ridge regression of the samples.",
        source=f"{_PAPER}, Corollary 3.1.4 (Theorem D.4), Corollary D.1.1",
        repaired='As for AE-5; "the regularization signal in the prompt" is the factor 1 - eta lambda of the update, a'
        " weight of the network: one network for one lambda.\n"
        "Any number of samples. `ww.incontext.Ridge` is the estimator.",
        rate="e^(-t/(2 kappa)) to the optimum, kappa = 1/(eta (mu + lambda))",
        expects="PROVEN",
        home=f"{_HERE}.descent.steps",
        small=f"{_RUN}:ridge",
        studies=f"{_RUN}:ridge_studies",
    ),
    Theorem(
        id="AE-7",
        title="the lasso in context",
        statement="A soft threshold after every step, by two gates for each coefficient, leads to the lasso of the"
        " samples: proximal gradient descent.",
        source=f"{_PAPER}, sections 5 and C",
        repaired="The paper trains a network for it and builds none. The thresholds stand in the prompt; steps"
        " followed by a soft threshold are nonexpansive, so AE-4's lemma holds for them.\n"
        "Any number of samples. `ww.incontext.Lasso` and `ww.incontext.ElasticNet` are the estimators.",
        rate="e^(-t/(2 kappa)) to the optimum",
        expects="PROVEN",
        home=f"{_HERE}.descent.steps",
        small=f"{_RUN}:lasso",
        studies=f"{_RUN}:lasso_studies",
    ),
    Theorem(
        id="AE-8",
        title="H heads, truncated linear models with w in the prompt",
        statement="H heads of n keys each, n-2 anchors and two sentinels, compute Range(w . x_i) for every token with"
        " w in the prompt, with an error of (b - a)/((n-2) H) plus a softmax term.",
        source=f"{_PAPER}, Theorem D.1, Lemma D.2",
        repaired="The printed layer, six heads side by side whose keys are the tokens, is built and certified"
        " (`literal_truncated_linear`; a plain Transformer loads it): for every prompt in range whose tokens"
        " hold one w and its multiples k w, rounded. Prompts that do not are refused when it runs.\n"
        "`in_context_truncated_linear_heads` takes a w_i for every sample: its keys stand in each sample's"
        " block and w_i is the query, and its H heads are H layers of one head each, one after the other. The"
        " printed keys k w, which all samples share, allow one w.\n"
        "As for UA-3: the first head's lower sentinel carries a, the last head's upper one b, L_{-1} = a -"
        " dL, and beta is ours.",
        rate="1/H at a fixed number of samples",
        expects="PROVEN",
        home=f"{_HERE}.descent.truncated",
        small=f"{_HERE}.exhibits.prompt_instances:shared",
        studies=f"{_HERE}.exhibits.prompt_instances:shared_studies",
    ),
)


ONE_PASS = (
    Theorem(
        id="AE-16",
        title="learning in one forward pass",
        statement="One frozen network reads (x_1, y_1, ..., x_n, y_n, x_q) and returns the prediction for x_q of the"
        " model that an algorithm fits to the samples: L looped layers, then the read-out w . x_q.",
        source=f"{_PAPER}, equation (2.1); the universal approximation paper, Remark D.3 and before Theorem 4.2",
        repaired="The papers build the steps and leave out how w . x_q comes about, a product of two things in the"
        " stream: here it is a table of the function s, read by tokens that hold x_q and no value. Ridge penalties"
        " and steps stand in the prompt, the former as d further tokens: one network for all of them.",
        rate="that of the algorithm; the read-out adds its own bound once",
        expects="PROVEN",
        home=f"{_HERE}.exhibits.one_pass_instances",
        small=f"{_HERE}.exhibits.one_pass_instances:one_pass",
    ),
)


HOPFIELD = (
    Theorem(
        id="AE-13",
        title="a Hopfield layer computes f(a . z + b)",
        statement="For an affine function l of a token and any continuous f with o outputs, a Hopfield layer with P + 1"
        " stored patterns, one for each anchor L_r on the range of l, and the values f(L_r) computes f(l(z)) for every"
        " token z as closely as wanted.",
        source=f"{_PAPER}, Theorem E.1",
        repaired="Which f: formulas and torch functions whose slope is bounded on the range of l, kinks included."
        " Continuous ones without a bounded slope, like sqrt at 0, are refused: no P follows from them.\n"
        "A Hopfield layer has V = W_V W_K Y by Definition E.1, but the values f(L_r) of the proof are no"
        " linear image of its stored patterns K_r = (2 L_r a, 2 L_r b - L_r²). The values stand in rows of"
        " their own in the stored patterns, which the query meets with zeros, as in Theorem E.2: with these"
        " rows in W_K Y the definition holds.\n"
        "The proof compares (l - L_r)² with the spacing dL, which holds for dL <= 2 only. Distances are"
        " compared with distances: anchors farther than dL weigh e^(-beta dL²) beside the nearest, so dL ="
        " tol over the slope of f is enough where the printed proof needs its square.\n"
        "l is computed by the linear map before the layer; the scores are the same.",
        rate="1/P for the paper's anchors; ours falls exponentially in the number of keys",
        expects="PROVEN",
        home=f"{_HERE}.hopfield.hopfield_layer",
        small=f"{_HERE}.exhibits.hopfield_instances:function",
        studies=f"{_HERE}.exhibits.hopfield_instances:function_studies",
    ),
    Theorem(
        id="AE-14",
        title="a Hopfield layer computes the gradients of its prompt",
        statement="For examples (x_i, y_i) and a vector w, a Hopfield layer whose state patterns are w and whose stored"
        " patterns are spread out of the examples by a linear map computes f(w . x_i - y_i) x_i for every i as closely"
        " as wanted, for any continuous f; with f the derivative of a loss these are the examples' gradients.",
        source=f"{_PAPER}, Theorem E.2, Corollary E.2.1",
        repaired="The constant row -1 of the state patterns turns -L² into +L²: it is +1. The printed C, which is to"
        " keep a state pattern on the stored patterns of its own example, is 2 d B² + B - ln e0, but another example's"
        " best score can be (d B² + B)²: with d = 8 and B = 1 all weight goes to a wrong one. The stored patterns of"
        " other examples are hidden; the printed layer with a C that is enough gives the same to rounding.",
        rate="1/P for the paper's anchors; ours falls exponentially in the number of keys",
        expects="PROVEN",
        home=f"{_HERE}.hopfield.hopfield_prompt",
        small=f"{_HERE}.exhibits.hopfield_instances:gradients",
        studies=f"{_HERE}.exhibits.hopfield_instances:gradients_studies",
    ),
)
