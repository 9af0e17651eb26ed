#include "client/chaos/faults/link_plan.h"

#include <array>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/base/philox.h"

namespace muster {
namespace {

using Kind = LinkFault::Kind;

// In leases.
constexpr double kShortest = 0.1;
constexpr double kLongest = 1.5;
constexpr double kLongestPause = 0.3;
constexpr absl::Duration kLeastLatency = absl::Milliseconds(2);
constexpr absl::Duration kMostLatency = absl::Milliseconds(60);
// Some partitions have moved by then.
constexpr absl::Duration kLongestLead = absl::Milliseconds(100);
constexpr double kFewestBytes = 2e5;
constexpr double kMostBytes = 5e6;

std::string FaultName(const Link& link, const LinkFault& fault) {
  switch (fault.kind) {
    case Kind::kNone:
      return absl::StrCat("nothing is wrong with ", link.Name());
    case Kind::kCut:
      return absl::StrCat("cut ", link.Name());
    case Kind::kSilent:
      return absl::StrCat("silence between ", link.caller, " and ", link.called);
    case Kind::kFromCaller:
      return absl::StrCat("nothing arrives from ", link.caller, " at ", link.called);
    case Kind::kToCaller:
      return absl::StrCat("nothing arrives from ", link.called, " at ", link.caller);
    case Kind::kSlow:
      return absl::StrFormat(
          "slow %s (%s, %.1f MB/s)", link.Name(),
          absl::FormatDuration(absl::Trunc(fault.latency, absl::Milliseconds(1))),
          fault.bytes_per_second / 1e6);
  }
  return "unknown";
}

}  // namespace

std::string PlannedFault::Describe() const {
  return absl::StrCat(
      FaultName(link, fault), " for ",
      absl::FormatDuration(absl::Trunc(lasts, absl::Milliseconds(10))),
      killed.empty() ? "" : absl::StrCat(", ", killed, " killed"),
      drained.empty() ? ""
                      : absl::StrCat(", ", drained, " drained ",
                                     absl::FormatDuration(absl::Trunc(lead, absl::Milliseconds(1))),
                                     " before"));
}

std::vector<PlannedFault> PlanLinkFaults(ChaosKind kind, uint64_t seed, int count,
                                         const std::vector<Link>& links, absl::Duration lease) {
  const Philox random(seed, "chaos", "links");
  const std::array<Kind, 2> cuts = {Kind::kCut, Kind::kSilent};
  const std::array<Kind, 2> halves = {Kind::kFromCaller, Kind::kToCaller};
  std::vector<PlannedFault> plan;
  for (int i = 0; i < count; ++i) {
    // Each of a fault's choices has a number of its own.
    const auto below = [&](uint64_t bound, uint64_t choice) {
      return random.Below(bound, i, choice);
    };
    const auto between = [&](double least, double most, uint64_t choice) {
      return least + (most - least) * static_cast<double>(random.Uniform(i, choice));
    };
    PlannedFault planned;
    planned.pause = lease * between(0, kLongestPause, 0);
    planned.link = links[below(links.size(), 1)];
    planned.lasts = lease * between(kShortest, kLongest, 2);
    ChaosKind what = kind;
    const bool moves = kind == ChaosKind::kLinksAndMoves;
    if (moves || kind == ChaosKind::kLinksAndKills) {
      constexpr std::array<ChaosKind, 3> kAny = {ChaosKind::kCutLink, ChaosKind::kHalfOpenLink,
                                                 ChaosKind::kSlowLink};
      what = kAny[below(kAny.size(), 3)];
      planned.killed = below(2, 4) == 0 ? planned.link.caller : planned.link.called;
    }
    if (moves) {
      if (below(3, 8) > 0) planned.killed.clear();
      planned.drained = i % 2 == 0 ? planned.link.caller : planned.link.called;
      planned.lead = kLongestLead * between(0, 1, 9);
      if (i > 0) planned.pause += plan.back().lasts;
    }
    if (what == ChaosKind::kCutLink) planned.fault.kind = cuts[below(cuts.size(), 5)];
    if (what == ChaosKind::kHalfOpenLink) planned.fault.kind = halves[below(halves.size(), 5)];
    if (what == ChaosKind::kSlowLink) {
      planned.fault = {.kind = Kind::kSlow,
                       .latency = kLeastLatency + (kMostLatency - kLeastLatency) * between(0, 1, 6),
                       .bytes_per_second = between(kFewestBytes, kMostBytes, 7)};
    }
    plan.push_back(std::move(planned));
  }
  return plan;
}

}  // namespace muster
