"""A tiny language in which everything that sampling estimates can be computed exactly.

Ground truth for tests, a source of sample logs, and a place to watch one choice of an algorithm at a time.

The language (:mod:`.language`)
    A response is one to T letters. It ends with a stop token, or is cut off after T tokens. It is correct
    if and only if its *last letter* is the one that the prompt asks for; the reward is 1 or 0, and nothing
    in it looks at length. The stop token is a token: a response of n < T letters has n + 1, a cut-off one T.
    (With ``answer="first"`` it is the first letter that counts. What follows it then changes nothing, and so
    an unbiased objective leaves length alone.)

The reference policy
    draws every letter from q_x, with q_x(wanted letter) = p_x and the rest shared equally, and stops after
    each letter with probability h. So, whatever the prompt,

    - P(correct) = p_x, for responses of every length: length and correctness are independent;
    - P(n letters, stopped) = h (1 - h)^(n - 1) for n < T;  P(cut off) = (1 - h)^(T - 1).

    Whatever dependence on length a trained policy shows, training put there.

The policy
    is a softmax with its own logits for every prompt and every prefix (a trie). With d(s) the probability of
    passing through prefix s, and Q, V the expected final reward after a token, and before it (:mod:`.exact`):

    - d log pi(a | s) / d logit(b | s) = 1[a = b] - pi(b | s);
    - gradient of the expected reward: d(s) pi(a | s) (Q(s, a) - V(s));
    - KL(pi || q) = sum_s d(s) KL(pi(. | s) || q(. | s));
    - pi*(y) ∝ pi_ref(y) exp(r(y) / beta), the best policy under E[r] - beta KL(pi || pi_ref):
      V*(s) = beta log sum_a pi_ref(a | s) exp(Q*(s, a) / beta),
      pi*(a | s) = pi_ref(a | s) exp((Q*(s, a) - V*(s)) / beta);
    - a natural-gradient step on weights w(y), the same for all tokens of a response, moves log pi(y) by
      w(y) - E[w], and so the expected length by Cov(w, length).

Training (:mod:`.training`)
    samples G responses per prompt, asks :func:`audit.objectives.weights.effective_weights`, the very function
    that audits logs, for the weight w of every token, and takes the step logits += lr · sum w d log pi. An
    error in the weights shows as wrong learning.
"""
