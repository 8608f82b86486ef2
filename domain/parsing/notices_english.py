"""What English notices are made of, in lower case, without contractions and hyphens.

The parts are explained in `notices_parts.py`. Commas part the words; plurals and the endings -ed and -ing are found
from the stem (`notices_words.py`).
"""

from typing import Final

from domain.parsing.notices_parts import Part

WORDS: Final[dict[Part, str]] = {
    Part.ME: (
        "ai, assistant, bot, chatbot, i, language model, me, mine, my, myself, nah, nope, this assistant, this bot, "
        "this model, your assistant"
    ),
    Part.US: "our, ourselves, us, we",
    Part.YOU: "you, your, yourself",
    Part.PRODUCT: (
        "ai mode, chatgpt, claude, copilot, deepseek, doubao, duckai, ernie, gemini, grok, kimi, le chat, llama, meta "
        "ai, mistral, perplexity, qwen"
    ),
    Part.NOT: (
        "against, avoid, cannot, cannot be, cant, declines, dont, forbid, hard no, hardly, hold back, inappropriate, "
        "incapable, instead of, keep from, keep me from, lack, nah, neither can i, never, no can do, no longer, no "
        "longer able, nope, not, not a thing, not much i can, nothing i can, nowhere, off limits, prevent, prohibit, "
        "restrict, stop me from, unable, unwilling, without answering, wont"
    ),
    Part.DECLINE: (
        "abstain, bow out, choose not, decline, drop this, excuse myself, going to pass, have to pass, have to skip, "
        "hold off, keep away from, leave it there, leave that, leave this, let this one go, must pass, must say no, "
        "not able to help, not appropriate, not comfortable, not discuss, off limits, opt out, pass on it, pass on "
        "that, pass on this, prefer not, prefer to keep away, rather not, rather pass, refrain, refuse, say no, say "
        "nothing, sit out, sit this one out, skip, skip that, skip this, stay away, stay neutral, stay out, steer "
        "clear, take a pass, turn down, will pass"
    ),
    Part.SERVE: (
        "accommodate, act on, address, advice, advise, answer, answer questions, assist, assistance, assisting, be of "
        "help, be of service, be part of, carry on, chat, comment, comment on, complete that, comply, continue, "
        "continuing, cover, deal with, delve, disclose, discuss, discuss that, dive, do that, do this, elaborate, "
        "elaborate on, engage, engaging, entertain, facilitate, feedback, field, fulfil, fulfill, get into, give, "
        "give you, giving, go ahead, go along, go down, go further, go into, go near, go there, grant, guidance, "
        "guide, hand over, handle, handling, help, indulge, inform, look into, make that, oblige, offer, opine, "
        "participate, proceed, produce what, provide, provide information, providing, recommend anything, reply, "
        "reproduce, respond, respond to, respond with, reveal, say anything, say more, share, sharing, shed light, "
        "speak, speak about, speak to, support, tackle, take a stance, take on, take part, talk, touch on, touch "
        "that, travel, type that, walk you through, weigh, weigh in, work on, work with, write about, write what, "
        "writing"
    ),
    Part.WORK: (
        "complete, completed, completing, connect, create, creating, deliver, display, execute, executing, fetch, "
        "finish, generate, generating, get, load, make, open, perform, process, produce, producing, reach, render, "
        "retrieve, return, run, running, save, saving, send, sent, show, write"
    ),
    Part.TALK: (
        "answer, ask, asking, body stream, category, chat, content, conversation, conversation topic, data, "
        "discussion, generation, image, information, input, input stream, instruction, line of questioning, material, "
        "matter, message, message stream, messages, output, page, prompt, queries, query, question, replies, reply, "
        "request, research, response, search, searches, statement, subject, subject matter, task, text, thread, "
        "topic, utterance, wording"
    ),
    Part.BANNED: (
        "abuse, abusive, adult, against, banned, blacklisted, block, blocklist, breach, break, cannot be shown, "
        "censor, censored, classified, conflict, contentious, contrary, contravene, controversial, copyright, "
        "copyrighted, dangerous, declined, defamatory, delete, deleting, delicate, denied, did not pass, disable, "
        "disabled, disallow, disallowed, disinformation, fail our, fail to comply, fail to meet, filter, flag, "
        "flagged, flagging, forbidden, graphic, guard, guideline, harassment, harmful, hate, hateful, hidden, hide, "
        "illegal, immoral, inappropriate, inappropriate content, infringe, intercepted, misinformation, moderate, "
        "moderation, not align, not allowed, not appropriate, not in line, not permitted, not suitable, nsfw, off "
        "limits, off the table, offensive, out of bounds, outside our, policies, policy, politically sensitive, "
        "prohibited, quarantine, redact, refused, reject, remove, removing, restrict, restricted, screened, "
        "sensitive, stopped by, suppress, taken down, touchy, toxic, trigger, unacceptable, unethical, unsafe, "
        "unsuitable, violate, violating, violation, withdrawn, withheld, withhold"
    ),
    Part.POLICY: (
        "acceptable, allowed, anthropic usage policies, anthropic usage policy, boundaries, code of conduct, "
        "community, compliance, constraint, content, designed, ethical, ethics, filter, google policy, guardrail, "
        "guideline, instructed, instruction, law, legal, limitation, microsoft responsible ai, moderation, openai "
        "policies, openai usage policies, permitted, policies, policy, principle, programmed, programming, "
        "regulation, responsible, restriction, rule, rules of, safeguards, safety, security, settings, standard, "
        "term, terms of service, trained, training, usage, values"
    ),
    Part.BEYOND: "beyond, exceed, exceeding, falls outside, not covered, out of, outside, past",
    Part.SCOPE: (
        "abilities, ability, able, area, built, capabilities, capability, designed, domain, expertise, field, "
        "knowledge, limits, purview, reach, remit, role, scope, skill, skillset, what i"
    ),
    Part.CHANGE: (
        "another subject, another topic, change subject, change the subject, change the topic, change topic, "
        "different subject, different topic, else to discuss, fresh conversation, fresh topic, move on, moving on, "
        "new subject, new topic, shift gears, something different, something else, start over, steer the chat, steer "
        "the conversation, steer this, switch topics, talk about other, topic change"
    ),
    Part.LIMIT: (
        "allotment, allowance, balance, budget, cap, ceiling, context length, context window, credit, free limit, "
        "limit, limits, maximum, maximum length, paid limit, quota, rate, rate limit, ration, threshold, tokens, "
        "trial, usage"
    ),
    Part.METERED: (
        "attempt, conversation, credit, generation, message, prompt, queries, query, question, request, response, "
        "run, search, searches, token"
    ),
    Part.SPENT: (
        "all out of, all used, asked the maximum, at your limit, available at, back tomorrow, becomes available, "
        "blown through, burned through, come to an end, consume, deplete, dried up, exceed, exceeding, exhaust, "
        "expire, finished, gone, gone through, have 0, have left, hit, hitting, insufficient, is over, is up, left "
        "for, left this, left today, left until, limited number, maxed out, no credits, no further, no messages, no "
        "more, no queries, no remaining, no requests, no searches, none left, none remaining, not ask any more, not "
        "enough, out of, over for now, over the limit, paused, ran out, reached, refill, refresh, renew, replenish, "
        "reset, run dry, run out, running out, sent the maximum, sent them all, surpass, too high, too long, use up, "
        "used, used 100, used all, used it all, used the maximum, used up, went through, zero left"
    ),
    Part.TOO: "a lot of, faster than, lots of, more than, quicker than, slow down, so many, that many, too",
    Part.MANY: (
        "a lot of, fast, faster, frequent, frequently, high, lot, lots of, many, much, quick, quicker, quickly, "
        "rapidly, slow down, so many, soon, that many, too often"
    ),
    Part.AGAIN: "after, again, available, back, later, next, reset, resume, until",
    Part.THROTTLED: (
        "come back tomorrow, cool down, cooldown, done for today, enough for today, expected available, it for today, "
        "just a moment, not ask another, not ask any more, not ask more, not send another, not send any more, not "
        "send messages, not send more, rate limit, rate limited, see you tomorrow, slow down, that all for today, "
        "that for today, throttle, throttled, too fast, too many requests, too quickly, wait a while before"
    ),
    Part.LOGIN: (
        "authenticate, authentication required, authorize, connect your account, continue with google, create a free "
        "account, create account, create an account, link your account, log back in, log in, log into, logged in, "
        "logged out, logging in, login, member only, members only, need an account, not logged in, re authenticate, "
        "reauthenticate, register, requires an account, sign back in, sign in, sign into, sign up, signed in, signed "
        "out, signin, signing in, signup"
    ),
    Part.GATE: (
        "access denied, are you a robot, are you human, are you still there, captcha, checking your browser, enable "
        "javascript, enter your password, has been blocked from, have been blocked, just a moment, make sure you, not "
        "a bot, not a robot, permission denied, really you, unauthorized access, verification required, verify you "
        "are human, verifying your browser, vpn, you do not have access, you do not have permission, you not have "
        "permission, your identity"
    ),
    Part.VERIFY: (
        "check, checking, complete, completing, confirm, drag, enter, finish, make sure, pass, prove, slide, solve, "
        "solving, tick, tick the, validate, verify, verifying"
    ),
    Part.HUMAN: (
        "2fa, age, authenticity, automated, automation, bot, box, browser, captcha, challenge, checkbox, cloudflare "
        "challenge, code, cookie, cookies, email, email address, human, identity, javascript, legitimate, otp, "
        "person, phone, puzzle, real person, robot, robots, security check, site connection, sms, turnstile, two "
        "factor, verification"
    ),
    Part.ACCOUNT: (
        "access, account, activity, automation, behavior, behaviour, device, ip, login, network, permission, profile, "
        "requests, session, subscription, token, traffic"
    ),
    Part.BARRED: (
        "abnormal, automated, ban, banned, block, closed, compromised, deactivate, deactivated, denied, deny, "
        "denying, disable, ended, expire, flag, flagged, forbidden, frozen, hold, invalid, limit access, limited, "
        "lock, no access, on hold, paused, prevented, required, restrict, revoke, suspend, suspicious, terminate, "
        "timed out, unauthorised, unauthorized, unusual"
    ),
    Part.REGION: "area, country, jurisdiction, location, region, territory",
    Part.ABSENT: (
        "not accessible, not available, not currently available, not offered, not supported, not yet available, "
        "unavailable"
    ),
    Part.SYSTEM: (
        "api, app, application, assistant service, backend, bandwidth, chat history, cluster, connection, database, "
        "end, ends, engine, feed, gateway, hardware, host, infrastructure, internet, model, network, page, platform, "
        "provider, server, servers, service, side, site, socket, stream, system, tab, tool, upstream, web socket, "
        "website, websocket, wi fi, wifi"
    ),
    Part.FAIL: (
        "abort, an issue occurred, be offline, blank, broke, broke down, broken, bug, cancel, canceled, cancelled, "
        "corrupt, corrupted, crash, crashed, cut off, cut short, difficulties, difficulty, disconnect, drop, dropped, "
        "empty, empty response, ended, ended early, error, exception, fail, failed to, failure, fault, faulty, flaky, "
        "freeze, froze, garbled, glitch, glitchy, halt, halted, having a moment, hiccup, hit a snag, incomplete, "
        "interrupt, invalid response, issue occurred, issues, longer than expected, longer than usual, lose, lost, "
        "malfunction, misfire, mishap, network issue, no longer exist, not go through, not load, not respond, not "
        "responding, not work, not working, offline, paused, problem, ran into an issue, ran into trouble, snag, "
        "something broke, stop, stopped, stopping, stuck, stumble, technical difficulties, technical issue, "
        "terminated, time out, timed out, timeout, tripped up, trouble, unable to reach, unavailable, unexpected, "
        "unknown, unresponsive, unstable, unsuccessful, went down"
    ),
    Part.OUTAGE: (
        "appear to be offline, aw snap, bad gateway, cannot be loaded, connection lost, connection reset, could not "
        "be completed, could not be generated, could not be loaded, could not be processed, could not load, "
        "encountered an error, error code, error occurred, failed to fetch, failed to load, forbidden, gateway time "
        "out, gateway timeout, gone wrong, hit a snag, internal error, internal server error, is not right, network "
        "error, no answer was, no content, no content was, no internet, no reply, no response, no response was, not "
        "be displayed, not quite right, not responding, page not found, ran into an error, seem to be offline, "
        "service temporarily unavailable, service unavailable, something broke, something happened, something has "
        "gone, something has gone wrong, something must have gone wrong, something seems to have gone wrong, "
        "something went, something went wrong, stopped generating, stopped searching, stopped thinking, temporarily "
        "unavailable, timed out, unauthorized, unexpected error, unexpected happened, unknown error, was an error, "
        "went wrong, you are offline"
    ),
    Part.BUSY: (
        "asleep, at capacity, backlog, busy, capacity, coffee break, congested, congestion, crowded, demand, down, "
        "full capacity, hammered, heavy traffic, high demand, high traffic, high volume, hot, in high demand, in "
        "line, jammed, load, lots of people, maintenance, many people, nap, not available, not enough capacity, "
        "offline, outage, overheating, overload, overloaded, overwhelmed, peak, popular right now, queue, resource "
        "constraints, resources, scheduled maintenance, slammed, so many people, strained, stretched, swamped, taking "
        "a nap, tired, too many people, too many users, traffic, unavailable, under heavy load, under pressure, under "
        "strain, unusually high"
    ),
    Part.TELLING: (
        "according, affordable, alternative, although, always, among, anyone who, award, aware, best, better, both, "
        "brand, buy, called, cheap, cheaper, clarification, clarify, clear winner, comfortable to, common, companies, "
        "company, compare, consider, consumers, cost, customer, customers, definition, depends, despite, "
        "discontinued, discount, durable, easy to use, either, everybody, everyone, everyone else, example, "
        "excellent, expensive, famous, favorite, favourite, find any, found any, founded, generally, had to, he, "
        "heard, her, his, honest, honestly, impressive, in general, instead use, intuitive, is slow, it comes down "
        "to, it depends, knowing, launched, leader, leading, market, mean, means, more context, more detail, most "
        "people, mostly, named, need no, neither, no clear answer, no issue, no need, no problem, nobody, none, not "
        "aware, not know, not necessary, not needed, not required, nothing wrong, occasionally, often, often say, "
        "only if, option, overall, own, owned, people prefer, percent, poor, popular, powerful, price, probably, "
        "product, protect, quality, ranked, ranking, rarely, rated, rating, real time, recommend, recommendation, "
        "refusal, release, reliable, reportedly, reputation, review, reviewer, said, says, second best, seldom, sell, "
        "she, shopper, should be, slowly, sold, solid, sometimes, specify, spokesman, spokesperson, store, strict, "
        "stricter, such as, suggest, suggestion, team, their, them, they, trusted, twice, typically, unlike, usually, "
        "version, versus, vs, which, who, whose, winner, worse, worst, worth, year, years, yes"
    ),
    Part.TIME: (
        "afternoon, am, couple, couple of, daily, date, day, evening, friday, gmt, h, half, hour, hourly, later "
        "today, m, midnight, min, minute, minutes, monday, month, monthly, morning, noon, pm, pst, s, saturday, sec, "
        "second, sunday, thursday, today, tomorrow, tonight, tuesday, utc, wednesday, week, weekly, while"
    ),
    Part.SORRY: (
        "afraid, alas, apologies, apologise, apologize, apology, bummer, excuse me, forgive, hmm, oh no, oops, "
        "pardon, regret, regretfully, regrettably, sad, sadly, sadly enough, sorry, uh oh, unfortunately, whoops, "
        "yikes"
    ),
    Part.RETRY: (
        "again later, again soon, another go, another shot, another try, check back, come back, give it a moment, "
        "give it another, once more, one more time, reconnect, refresh, regenerate, relaunch, reload, reopen, resend, "
        "restart, resubmit, resume, retry, start over, try again, try later, try once more, trying again"
    ),
    Part.ELSE: (
        "a different way, another prompt, another question, another request, another topic, another way, anything "
        "else, different prompt, different question, different way, differently, else can i, else i can, else you, "
        "elsewhere, new question, other prompts, other question, other questions, other things, other topics, other "
        "ways, rephrase, reword, something different, something else, what else"
    ),
    Part.PAY: "add credits, buy more, pay, purchase, subscribe, top up, upgrade",
    Part.PLEASE: "please",
    Part.NEUTRAL: (
        "a, a day, able, about, above, absolutely, accept, access, acknowledged, action, actions, acts, add, "
        "additional, address, adjust, admin, administrator, adult, advanced, after, afterwards, again, against that, "
        "ago, agree, agreed, ah, ahead, ahead of, aim, alert, alive, all, allow, along, already, alright, also, "
        "alter, am, amount, an, and, anonymous, another, any, anything, apache, api, appear, appears, appreciate, "
        "appropriate, are, area, around, as, as a result of, aside, ask, aspect, associate, at, at present, at the "
        "moment, at this time, attach, attempt, attempts, attention, audio, automatically, available, aw, awake, "
        "away, awkward, aww, back, balanced, bar, barely, basic, basis, be, bear with us, because, because of, "
        "become, been, before, began, begin, begun, behave, being, believe, below, best if, best to, between, bias, "
        "biased, bigger, billing, bit, blank, break, breath, briefly, bring, broken, brought, buddy, busy times, but, "
        "button, by, by anthropic, by google, by meta, by microsoft, by openai, by xai, bye, calm, came, can, cancel, "
        "care, careful, caring, case, cases, cause, certain, certain topics, chat, check, checking, cheers, chinese, "
        "choose, chosen, circumstances, cite, clear and, clearly, click, close, closing, cloudflare, code, com, come, "
        "comfortable, coming, completely, complex, complicated, concern, concerning, condition, conditions, "
        "confidential, consent, consequence, contact, contain, continue, continue to, continues, copy, corner, "
        "correctly, could, count, created, creative, curious, current, currently, danger, darn, dashboard, dear, "
        "debate, deep, deep research, deeply, delighted, describe, detail, developed, developer, did, different, "
        "difficult, difficulty, direct, directed, direction, directly, disconnect, dismiss, do, does, doing, done, "
        "down a little, draft, dry, dude, due, due to, during, duty, each, easier, easy, edit, election, elections, "
        "else, email, embarrassing, empty, enable, encounter, encountered, engineer, english, enhance, enough, "
        "entire, entirely, envoy, er, error, especially, even, eventually, ever, every, every day, everything, exact, "
        "exactly, exceptionally, expect, expected, expecting, experience, experiencing, explicit, explore, explosive, "
        "extend, extension, extra, extra time, extremely, fair, fall, falls, farewell, fashion, feature, feel, feel "
        "free, felt, few, figure, first, five, fix, fixing, flash, following, for, form, forward, four, free, free "
        "plan, free tier, fresh, friend, from, ftp, full, fully, fun, further, fyi, geez, get, getting, give it, "
        "given, glad, gladly, go, go back, goal, goals, going, gone, good, goodbye, google account, google search, "
        "gosh, got, got it, gotcha, gpt, gpt 5, grateful, great, greetings, ground, grounds, group, groups, grow, "
        "guest, guys, had, haiku, handle it, hang on, hang tight, happen, happened, happening, happy, hard, harm, "
        "harmed, harmless, has, have, having, header, heads up, hear, heavy, held, hello, help center, help openai "
        "com, helpful, here, hey, hi, higher, hint, hints, hiya, hm, hold on, home, homepage, honor, honour, hope, "
        "hope you, hopefully, hoping, hour, hour or two, hours, how, howdy, however, http, human, hurt, icon, id, "
        "idle, if, immediately, impartial, important, improve, in, in order to, inactive, include, inconvenience, "
        "increase, individual, individuals, info, instance, instead, instead of that, instead please, integrity, "
        "intended, interaction, interactions, interesting, internal, into, investigate, investigating, invite, "
        "involve, is, issue, it, it best, it really you, its, join, just, keep, kept, kind, kind regards, kindly, "
        "know, language, large, larger, last, later, latest, lead to, learn, learn about, learn more, leave, left, "
        "left off, less, let, lets, light, lighter, like, likely, line, link, listen, little, logged, long, longer, "
        "look, looking, looking into, looks, lot, lots, love, lower, madam, made, made by, main, make, making, "
        "manner, manually, many, mate, matter, max, may, maybe, meant, meantime, meanwhile, medical, member, menu, "
        "microsoft account, might, mind, minor, minute or two, mission, mistake, mobile, mode, model, modify, moment, "
        "momentarily, more, morning, move, much, must, myself, nature, near, need, needed, neutral, neutrality, "
        "never, new, new chat, new conversation, next, nginx, nice, no, normal, normally, not, note, noted, nothing, "
        "notice, notified, notify, now, number, number of, objective, occur, occurred, of, off, off peak, offer, "
        "offered, oh, ok, okay, old, on, once, one, ones, only, onto, open, opened, opening, openresty, operator, "
        "opinion, opinions, opus, or, organization, other, others, otherwise, ouch, out, outcome, over, owner, pace, "
        "paid, pal, parent, part, particular, particular topic, particularly, parties, party, password, past, paste, "
        "pasted, path, patience, pause, people, per, per day, per hour, per minute, performance, perhaps, period, "
        "persist, personal, phrase, phrasing, pick, place, plain, plainly, plan, please, pleased, plus, point, "
        "polite, political, politics, pop, popup, portion, pose, position, positive, possible, possibly, potential, "
        "potentially, premium, prepare, prepared, present, press, previous, previous one, priority, privacy, private, "
        "pro, process, prompt again, properly, proxy, purpose, put, question, quiet, ran, range, ray, reach out, "
        "reaching, read, ready, really, really you, reason, reasons, receive, received, recover, refer, reference, "
        "regard, regarding, relate, related, remain, remainder, remaining, rephrasing, report, reported, require, "
        "required, reset, resolve, resolved, respect, respectful, respectfully, responsible, responsibly, rest, "
        "restore, restored, result, results, retried, review, rewording, right, right now, rights, road, role, run "
        "into, running, safe, same, saved, say, scale, scaling, scenario, screen, scroll, secret, secure, see, seem, "
        "seems, seen, select, self harm, serious, seriously, set, sexual, shall, short, shorter, shortly, shortly "
        "after, should, shown, side, sides, simple, simpler, simply, since, sincerely, sir, sit tight, site, "
        "situation, six, size, skip, slow, smaller, so, so far, solve, some, someone, something, sonnet, soon, sort, "
        "sort out, specific, speed, staff, stance, stand by, standard, start, start a, starting, state, status, stay, "
        "steer, still, still there, strange, strictly, structure, submit, subscribers, subscription, subset, "
        "successfully, such, suicide, summarize, summary, super, supergrok, support, sure, swipe, switch, take, take "
        "a break, taken, taking, tap, taps, team, team member, team plan, technical, tell, temporarily, temporary, "
        "ten, term, termination, terms, territory, than, thank, thanks, that, the, then, there, therefore, these, "
        "they be available, they be back, they refresh, they reset, thing, things, think, thinking, this, those, "
        "though, though i, though please, though there, thought, three, through, tier, till, time, times, tip, tips, "
        "to, today, toggle, told, too, tool, top, topics, total, totally, touch, touches, tough, toward, towards, "
        "trained, transport, treat, trial, tricky, tried, truly, trust, try, trying, tuned, turn, twelve, two, type, "
        "ugh, uh, uh oh, ultra, um, under, under my, understand, understanding, understood, undo, unknown, unless, "
        "unlimited, unlock, until, unusually, up, update, upgraded, upload, upon, url, use, useful, user, username, "
        "using, usual, very, via, view, views, violence, violent, virtual, visit, voice, wait, wait time, waiting, "
        "want, warning, was, way, weapon, weird, welcome, welfare, well, wellbeing, went, were, what, whatever, when, "
        "whenever, where, wherever, while, whoa, whole, why, will, willing, window, wish, with, with google, within, "
        "without, wondering, wording, wording of, work, worked, working, working on it, workspace, would, wow, "
        "written, yep, yet, yourself, yup"
    ),
}
