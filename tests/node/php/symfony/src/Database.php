<?php
namespace App;

class Database
{
    public static function connect(): \PDO
    {
        $options = [\PDO::ATTR_ERRMODE => \PDO::ERRMODE_EXCEPTION];
        if (getenv('DB_SSL_CA')) {
            $options[\PDO::MYSQL_ATTR_SSL_CA] = getenv('DB_SSL_CA');
        }
        $where = sprintf('mysql:host=%s;port=%s;dbname=%s', getenv('DB_HOST'), getenv('DB_PORT'), getenv('DB_DATABASE'));
        return new \PDO($where, getenv('DB_USERNAME'), getenv('DB_PASSWORD'), $options);
    }
}
