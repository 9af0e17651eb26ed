#include "client/doctor/findings_output.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "client/terminal/format.h"
#include "client/terminal/help_formatter.h"
#include "common/text/printable.h"
#include "proto/examination.pb.h"

namespace muster {
namespace {

constexpr size_t kColumns = 80;
constexpr size_t kIndent = 11;
// Names in a heading; the others are counted.
constexpr size_t kNames = 8;

const char* NameOf(Finding::Severity severity) {
  switch (severity) {
    case Finding::Severity::kOk:
      return "OK";
    case Finding::Severity::kWarning:
      return "WARNING";
    case Finding::Severity::kProblem:
      return "PROBLEM";
  }
  return "";
}

// Returns the host that a daemon runs on; empty: it has not told, or is no daemon.
std::string HostOfDaemon(const ExaminedCluster& cluster, const std::string& where) {
  const auto found = cluster.reports.find(where == kTheCoordinator ? "" : where);
  if (where == kTheClient || found == cluster.reports.end()) return "";
  return found->second.machine().host();
}

// Returns the names of daemons, and their machine if that is one, in lines.
std::string Heading(const ExaminedCluster& cluster, const std::vector<std::string>& daemons) {
  std::vector<std::string> names;
  std::set<std::string> hosts;
  for (const std::string& daemon : daemons) {
    hosts.insert(HostOfDaemon(cluster, daemon));
    if (names.size() < kNames) names.push_back(PrintableLine(daemon));
  }
  std::string text = absl::StrJoin(names, ", ");
  if (daemons.size() > kNames) absl::StrAppend(&text, " and ", daemons.size() - kNames, " more");
  const std::string& host = *hosts.begin();
  if (hosts.size() == 1 && !host.empty()) absl::StrAppend(&text, " on ", PrintableLine(host));
  return WrapLines(text, kColumns);
}

// Returns findings of which those that are the same on several daemons are one. `where` is a
// heading.
Findings SaidOnce(const ExaminedCluster& cluster, const Findings& findings) {
  std::map<std::tuple<Finding::Severity, std::string, std::string, std::string>, size_t> places;
  Findings once;
  std::vector<std::vector<std::string>> daemons;
  for (const Finding& finding : findings) {
    const auto [place, is_new] = places.try_emplace(
        {finding.severity, finding.check, finding.seen, finding.to_do}, once.size());
    if (is_new) {
      once.push_back(finding);
      daemons.emplace_back();
    }
    daemons[place->second].push_back(finding.where);
  }
  for (size_t i = 0; i < once.size(); ++i) once[i].where = Heading(cluster, daemons[i]);
  return once;
}

// Returns the text in lines behind a margin, whose first line begins with `head`.
std::string Hang(std::string head, const std::string& text) {
  head.resize(kIndent, ' ');
  std::string lines;
  for (const auto line : absl::StrSplit(WrapLines(PrintableLine(text), kColumns - kIndent), '\n',
                                        absl::SkipEmpty())) {
    absl::StrAppend(&lines, head, line, "\n");
    head.assign(kIndent, ' ');
  }
  return lines;
}

std::string Counted(size_t number, const std::string& thing) {
  return absl::StrCat(FormatCount(number), " ", thing, number == 1 ? "" : "s");
}

// Returns findings with those of one daemon together, in the order in which daemons come first, and
// the worst of each first.
std::vector<const Finding*> Grouped(const Findings& findings, Shown shown) {
  std::vector<std::string> order;
  for (const Finding& finding : findings) {
    if (std::find(order.begin(), order.end(), finding.where) == order.end()) {
      order.push_back(finding.where);
    }
  }
  std::vector<const Finding*> grouped;
  for (const std::string& where : order) {
    for (const auto severity :
         {Finding::Severity::kProblem, Finding::Severity::kWarning, Finding::Severity::kOk}) {
      if (severity == Finding::Severity::kOk && shown == Shown::kNotWell) continue;
      for (const Finding& finding : findings) {
        if (finding.where == where && finding.severity == severity) grouped.push_back(&finding);
      }
    }
  }
  return grouped;
}

}  // namespace

FindingCounts CountFindings(const Findings& findings) {
  FindingCounts counts;
  for (const Finding& finding : findings) {
    ++counts.checks;
    counts.warnings += finding.severity == Finding::Severity::kWarning;
    counts.problems += finding.severity == Finding::Severity::kProblem;
  }
  return counts;
}

std::string FindingsText(const ExaminedCluster& cluster, const Findings& findings, Shown shown) {
  std::string text;
  const Finding* before = nullptr;
  const Findings once = SaidOnce(cluster, findings);
  for (const Finding* finding : Grouped(once, shown)) {
    if (before == nullptr || before->where != finding->where) {
      absl::StrAppend(&text, before == nullptr ? "" : "\n", finding->where, "\n");
    }
    before = finding;
    absl::StrAppend(&text, Hang(absl::StrCat("  ", NameOf(finding->severity)),
                                absl::StrCat(finding->check, ": ", finding->seen)));
    if (!finding->to_do.empty()) absl::StrAppend(&text, Hang("", finding->to_do));
  }
  if (!text.empty()) text += "\n";
  const FindingCounts counts = CountFindings(findings);
  absl::StrAppend(&text, Counted(counts.checks, "check"), ": ", Counted(counts.problems, "problem"),
                  ", ", Counted(counts.warnings, "warning"), ", ",
                  FormatCount(counts.checks - counts.warnings - counts.problems), " well");
  const v1::ExaminationUpdate::Last& last = cluster.last;
  if (last.pairs() > 0) {
    absl::StrAppend(&text, "; ", FormatCount(last.drawn_pairs()), " of ", FormatCount(last.pairs()),
                    " links");
  }
  return text + "\n";
}

nlohmann::ordered_json FindingsJson(const ExaminedCluster& cluster, const Findings& findings) {
  const FindingCounts counts = CountFindings(findings);
  nlohmann::ordered_json json;
  json["checks"] = counts.checks;
  json["problems"] = counts.problems;
  json["warnings"] = counts.warnings;
  json["links"] = cluster.last.pairs();
  json["measured_links"] = cluster.last.drawn_pairs();
  json["findings"] = nlohmann::ordered_json::array();
  for (const Finding* finding : Grouped(findings, Shown::kAll)) {
    json["findings"].push_back({{"severity", NameOf(finding->severity)},
                                {"where", finding->where},
                                {"host", HostOfDaemon(cluster, finding->where)},
                                {"check", finding->check},
                                {"seen", finding->seen},
                                {"to_do", finding->to_do}});
  }
  return json;
}

}  // namespace muster
