#include "client/doctor/findings_output.h"

#include <nlohmann/json.hpp>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace muster {
namespace {

using ::testing::HasSubstr;

Findings Some() {
  const auto kOk = Finding::Severity::kOk, kWarning = Finding::Severity::kWarning,
             kProblem = Finding::Severity::kProblem;
  return {{.severity = kOk, .where = "w0", .check = "clock", .seen = "It is right."},
          {.severity = kWarning,
           .where = "w0",
           .check = "file descriptors",
           .seen = "The process may open 1,024 files. It takes one connection for every three of "
                   "them, and others have to wait.",
           .to_do = "Raise the limit."},
          {.severity = kOk, .where = "w1", .check = "clock", .seen = "It is right."},
          {.severity = kProblem,
           .where = "w0",
           .check = "checkpoint root",
           .seen = "It \x1b[2J does not see it.",
           .to_do = "Mount it."}};
}

ExaminedCluster OfHostA() {
  ExaminedCluster cluster;
  cluster.reports["w0"].mutable_machine()->set_host("host-a");
  cluster.last.set_pairs(6);
  cluster.last.set_drawn_pairs(4);
  return cluster;
}

TEST(FindingsTextTest, ShowsWhatIsNotWellWorstFirst) {
  EXPECT_EQ(FindingsText(OfHostA(), Some(), Shown::kNotWell),
            "w0 on host-a\n"
            "  PROBLEM  checkpoint root: It \\x1b[2J does not see it.\n"
            "           Mount it.\n"
            "  WARNING  file descriptors: The process may open 1,024 files. It takes one\n"
            "           connection for every three of them, and others have to wait.\n"
            "           Raise the limit.\n"
            "\n"
            "4 checks: 1 problem, 1 warning, 2 well; 4 of 6 links\n");
}

TEST(FindingsTextTest, ShowsAllIfAsked) {
  const std::string text = FindingsText(OfHostA(), Some(), Shown::kAll);
  EXPECT_THAT(text, HasSubstr("w0, w1\n  OK       clock: It is right.\n"));
  for (const auto line : absl::StrSplit(text, '\n')) EXPECT_LE(line.size(), 80u) << line;
  EXPECT_EQ(FindingsText({}, {}, Shown::kNotWell), "0 checks: 0 problems, 0 warnings, 0 well\n");
}

TEST(FindingsTextTest, SaysOnceWhatManyShare) {
  Findings findings;
  for (int i = 0; i < 12; ++i) {
    findings.push_back({.severity = Finding::Severity::kWarning,
                        .where = absl::StrCat("worker-", i),
                        .check = "huge pages",
                        .seen = "They are never used.",
                        .to_do = "Allow them."});
  }
  EXPECT_EQ(FindingsText({}, findings, Shown::kNotWell),
            "worker-0, worker-1, worker-2, worker-3, worker-4, worker-5, worker-6, worker-7\n"
            "and 4 more\n"
            "  WARNING  huge pages: They are never used.\n"
            "           Allow them.\n"
            "\n"
            "12 checks: 0 problems, 12 warnings, 0 well\n");
}

TEST(FindingsJsonTest, HasAllFindings) {
  const auto json = FindingsJson(OfHostA(), Some());
  EXPECT_EQ(json["checks"], 4);
  EXPECT_EQ(json["problems"], 1);
  EXPECT_EQ(json["warnings"], 1);
  EXPECT_EQ(json["links"], 6);
  ASSERT_EQ(json["findings"].size(), 4u);
  EXPECT_EQ(json["findings"][0]["severity"], "PROBLEM");
  EXPECT_EQ(json["findings"][0]["where"], "w0");
  EXPECT_EQ(json["findings"][0]["host"], "host-a");
  EXPECT_EQ(json["findings"][0]["to_do"], "Mount it.");
}

}  // namespace
}  // namespace muster
