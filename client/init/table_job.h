#ifndef MUSTER_CLIENT_INIT_TABLE_JOB_H_
#define MUSTER_CLIENT_INIT_TABLE_JOB_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "client/init/csv_guess.h"
#include "client/init/found_data.h"
#include "client/init/starter_job.h"

namespace muster {

// Checks that a table has a column to predict and others to learn from. InvalidArgument says what
// is wrong with it.
absl::Status CheckTable(const FoundData& data);

// Returns the models that learn such a table, the most usual first. A model that predicts classes
// and numbers is there once. REQUIRES: CheckTable.
std::vector<std::string> ModelsForTable(const CsvGuess& table);

// Returns true if this model is to predict the label as a number. REQUIRES: it is one of
// ModelsForTable.
bool PredictsNumber(const CsvGuess& table, const std::string& model);

// Fills in the data of a job that trains such a model, with comments and notes on what was guessed
// and what is left out. REQUIRES: as above.
void AddTable(const FoundData& data, const std::string& model, StarterJob& job);

}  // namespace muster

#endif  // MUSTER_CLIENT_INIT_TABLE_JOB_H_
