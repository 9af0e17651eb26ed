// Writes the Parquet files of this folder: `node make_files.mjs`, with these packages of npm installed beside it:
// @duckdb/node-api 1.5.6-r.1, parquet-wasm 0.8.0 (Arrow's writer in Rust) and hyparquet-writer 0.17.0. README.md says more.
import fs from 'fs';
import zlib from 'zlib';
import { createRequire } from 'module';
import { DuckDBInstance } from '@duckdb/node-api';
import { parquetWriteFile } from 'hyparquet-writer';

const wasm = createRequire(import.meta.url)('parquet-wasm/node');
const lines = fs.readFileSync('rows.jsonl', 'utf8').trim().split('\n');
const rows = lines.map((line) => JSON.parse(line));

const connection = await (await DuckDBInstance.create(':memory:')).connect();
await connection.run(`create table rows as select * from read_json('rows.jsonl', format = 'newline_delimited', columns = {
  text: 'VARCHAR', color: 'VARCHAR', id: 'BIGINT', small: 'INTEGER', whole: 'UBIGINT', half: 'FLOAT', third: 'DOUBLE',
  sure: 'BOOLEAN', tags: 'VARCHAR[]', messages: 'STRUCT(role VARCHAR, content VARCHAR, calls STRUCT(id USMALLINT,
  arguments VARCHAR[])[])[]'})`);
const copy = (columns, name, options) =>
  connection.run(`copy (select ${columns} from rows) to '${name}.parquet' (format parquet, ${options})`);
await copy('*', 'duckdb_v1_snappy', 'compression snappy');
await copy('*', 'duckdb_v2_zstd', 'compression zstd, parquet_version V2');
await copy('text', 'brotli', 'compression brotli');
await copy(
  `text, date '2024-01-01' as day, timestamp '2024-01-01' as moment, 1.5::decimal(9, 2) as price, map {'a': 1} as pairs,
  uuid() as name, [date '2024-01-01'] as days`, 'refused', 'compression zstd');

const table = () => wasm.readParquet(fs.readFileSync('duckdb_v1_snappy.parquet'));
const arrow = (name, configure) => {
  const properties = configure(new wasm.WriterPropertiesBuilder());
  fs.writeFileSync(`${name}.parquet`, wasm.writeParquet(table(), properties.build()));
};
const { WriterVersion, Compression, Encoding } = wasm;
// Pages of a few values, and row groups of five rows.
const small = (builder) =>
  builder.setDataPageSizeLimit(40).setWriteBatchSize(2).setMaxRowGroupSize(5);
arrow('arrow_v1_gzip', (b) => small(b).setWriterVersion(WriterVersion.V1).setCompression(Compression.GZIP));
arrow('arrow_v2_zstd', (b) => small(b).setWriterVersion(WriterVersion.V2).setCompression(Compression.ZSTD));
arrow('arrow_v2_plain', (b) => b.setWriterVersion(WriterVersion.V2).setDictionaryEnabled(false)
  .setCompression(Compression.UNCOMPRESSED).setEncoding(Encoding.PLAIN));
arrow('arrow_delta', (b) => b.setWriterVersion(WriterVersion.V2).setDictionaryEnabled(false)
  .setCompression(Compression.SNAPPY).setColumnEncoding('text', Encoding.DELTA_BYTE_ARRAY)
  .setColumnEncoding('color', Encoding.DELTA_LENGTH_BYTE_ARRAY).setColumnEncoding('id', Encoding.DELTA_BINARY_PACKED)
  .setColumnEncoding('small', Encoding.DELTA_BINARY_PACKED).setColumnEncoding('whole', Encoding.DELTA_BINARY_PACKED));

// Without the nested columns.
const column = (name, type, encoding) => ({ name, type, encoding,
  data: rows.map((row) => row[name] ?? null).map((value) => (type === 'INT64' && value !== null ? BigInt(value) : value)) });
parquetWriteFile({ filename: 'hyparquet_flat.parquet', codec: 'GZIP', rowGroupSize: 7,
  compressors: { GZIP: (bytes) => new Uint8Array(zlib.gzipSync(bytes)) },
  columnData: [column('text', 'STRING', 'DELTA_LENGTH_BYTE_ARRAY'), column('color', 'STRING'),
    column('id', 'INT64', 'DELTA_BINARY_PACKED'), column('small', 'INT32'), column('half', 'FLOAT'),
    column('third', 'DOUBLE', 'BYTE_STREAM_SPLIT'), column('sure', 'BOOLEAN', 'RLE')] });
