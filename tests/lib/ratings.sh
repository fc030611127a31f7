# Sourced by tests that train the recommender: a small set of ratings in MovieLens' files.
make_ratings() { # DIR
    mkdir -p "$1"
    awk -v d="$1" 'BEGIN {
        for (i = 1; i <= 40; i++) print i "::" (i % 2 ? "F" : "M") "::" 18 + i % 40 "::" i % 21 "::0" >(d "/users.dat")
        for (i = 1; i <= 60; i++) print i "::Word" i % 7 " Other" i % 5 " (1999)::Drama|Kind" i % 4 >(d "/movies.dat")
        for (i = 1; i <= 600; i++) print 1 + i * 7 % 40 "::" 1 + i * 11 % 60 "::" 1 + i % 5 "::9" >(d "/ratings.dat")
    }'
}
