"""The Spark functions that a stream file may call: they look at one row, and answer the same when it is replayed.

Taken from Spark's own registry, group by group; a test compares the two, so that a new Spark version shows what it adds.
"""

GROUPS = (
    "array",
    "bitwise",
    "collection",
    "conditional",
    "conversion",
    "datetime",
    "hash",
    "json",
    "map",
    "math",
    "predicate",
    "string",
    "struct",
    "url",
    "variant",
)
UNFIT = frozenset(  # of these groups, but random, telling the time of the replay, or making another number of rows
    """
    curdate current_date current_time current_timestamp current_timezone json_tuple localtimestamp now rand randn random
    randstr session_window shuffle uniform unix_timestamp window window_time
    """.split()
)
ROW_FUNCTIONS = frozenset(
    """
    abs acos acosh add_months and array array_append array_compact array_contains array_distinct array_except
    array_insert array_intersect array_join array_max array_min array_position array_prepend array_remove array_repeat
    array_size array_union arrays_overlap arrays_zip ascii asin asinh atan atan2 atanh base64 between bigint bin binary
    bit_count bit_get bit_length boolean bround btrim cardinality cast cbrt ceil ceiling char char_length
    character_length chr coalesce collate collation concat concat_ws contains conv convert_timezone cos cosh cot crc32
    csc date date_add date_diff date_format date_from_unix_date date_part date_sub date_trunc dateadd datediff datepart
    day dayname dayofmonth dayofweek dayofyear decimal decode degrees div double e element_at elt encode endswith
    equal_null exp expm1 extract factorial find_in_set flatten float floor format_number format_string from_json
    from_unixtime from_utc_timestamp get get_json_object getbit greatest hash hex hour hypot if ifnull ilike in initcap
    instr int is_valid_utf8 is_variant_null isnan isnotnull isnull json_array_length json_object_keys last_day lcase
    least left len length levenshtein like ln locate log log10 log1p log2 lower lpad ltrim luhn_check make_date
    make_dt_interval make_interval make_time make_timestamp make_timestamp_ltz make_timestamp_ntz make_valid_utf8
    make_ym_interval map map_concat map_contains_key map_entries map_from_arrays map_from_entries map_keys map_values
    mask md5 minute mod month monthname months_between named_struct nanvl negative next_day not nullif nullifzero nvl
    nvl2 octet_length or overlay parse_json parse_url pi pmod position positive pow power printf quarter quote radians
    regexp regexp_count regexp_extract regexp_extract_all regexp_instr regexp_like regexp_replace regexp_substr repeat
    replace reverse right rint rlike round rpad rtrim schema_of_json schema_of_variant schema_of_variant_agg sec second
    sentences sequence sha sha1 sha2 shiftleft shiftright shiftrightunsigned sign signum sin sinh size slice smallint
    sort_array soundex space split split_part sqrt startswith str_to_map string struct substr substring substring_index
    tan tanh time time_diff time_trunc timestamp timestamp_micros timestamp_millis timestamp_seconds tinyint to_binary
    to_char to_date to_json to_number to_time to_timestamp to_timestamp_ltz to_timestamp_ntz to_unix_timestamp
    to_utc_timestamp to_varchar to_variant_object translate trim trunc try_add try_divide try_element_at
    try_make_interval try_make_timestamp try_make_timestamp_ltz try_make_timestamp_ntz try_mod try_multiply
    try_parse_json try_parse_url try_subtract try_to_binary try_to_date try_to_number try_to_time try_to_timestamp
    try_url_decode try_validate_utf8 try_variant_get ucase unbase64 unhex unix_date unix_micros unix_millis unix_seconds
    upper url_decode url_encode validate_utf8 variant_get weekday weekofyear when width_bucket xxhash64 year zeroifnull
    """.split()
)
